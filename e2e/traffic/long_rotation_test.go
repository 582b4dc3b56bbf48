//go:build long

package traffic

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	leafLife  = flag.Duration("leaf", 10*time.Second, "life of certificates while a root is rotated; from 20s on discovery is killed meanwhile too")
	steady    = flag.Int("steady", 0, "further clients, which send without a pause over connections that stay; 1,000,000 requests take 16 of them some minutes of two processors")
	underLoad = flag.Duration("under-load", 0, "how long requests are sent at least, before and after the rotation too")
)

// phase returns how far a rotation is, "" for none.
func (s *signed) phase() string {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(s.authority, "rotation.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var rotation struct{ Phase string }
	if err == nil {
		err = json.Unmarshal(text, &rotation)
	}
	s.Check(err)
	return rotation.Phase
}

// roots returns the root certificates of a file.
func (s *signed) roots(path string) (out []*x509.Certificate) {
	s.T.Helper()
	text, err := os.ReadFile(path)
	s.Check(err)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		s.Check(err)
		out = append(out, root)
	}
	return out
}

// trusts returns an error until a member trusts one root alone, which has signed its certificate.
func (m *member) trusts(root *x509.Certificate) error {
	held := m.s.roots(filepath.Join(m.certificates(), "root-cert.pem"))
	leaf := m.s.roots(filepath.Join(m.certificates(), "cert-chain.pem"))[0]
	if len(held) != 1 || !held[0].Equal(root) || !bytes.Equal(leaf.AuthorityKeyId, root.SubjectKeyId) {
		return fmt.Errorf("%s holds %d roots, and a leaf of %x; want one, %x", m.Name, len(held), leaf.AuthorityKeyId, root.SubjectKeyId)
	}
	return nil
}

// A root is replaced under load, while leaves are renewed all the time: over connections that stay and over new ones no request fails,
// and no Envoy is started again.
func TestLongARootIsReplacedUnderLoad(t *testing.T) {
	life := leafLife.String()
	s := newSigned(t, "--caTTL", life, "--caMaxTTL", life)
	members := []*member{s.join("server", s.token("server")).await(), s.join("client", s.token("client")).await()}
	server, client := members[0], members[1]
	port := s.mutual(server, s.BackendAt("127.0.0.1", "app"))
	s.ApplyAtOnce("fresh.yaml",
		"ServiceEntry fresh", fmt.Sprintf(`hosts: [fresh.test]
resolution: STATIC
location: MESH_INTERNAL
ports: [{number: 80, name: http, protocol: HTTP}]
endpoints: [{address: %s, ports: {http: %d}, labels: {app: server}, serviceAccount: server}]`, server.ip, port),
		"DestinationRule fresh", "host: fresh.test\ntrafficPolicy: {tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {maxRequestsPerConnection: 1}}}")
	client.gets("app")
	envoys := map[*member]int{}
	for _, m := range members {
		pid, err := m.Envoy()
		s.Check(err)
		envoys[m] = pid
	}
	at := fmt.Sprintf("127.0.0.1:%d", client.proxy)
	s.Check(lab.Eventually(patience, func() error { _, err := lab.GetThrough(at, "http://fresh.test/"); return err }))
	old := s.roots(filepath.Join(s.authority, "root-cert.pem"))[0]

	began := time.Now()
	loads := []*lab.Load{
		lab.StartSlowLoad(at, "http://server.test/", 1, 1, 2*time.Millisecond), lab.StartSlowLoad(at, "http://fresh.test/", 1, 1, 2*time.Millisecond),
	}
	if *steady > 0 {
		loads = append(loads, lab.StartSlowLoad(at, "http://server.test/", *steady, 0, 0))
	}
	if out, err := exec.Command(filepath.Join(s.Bin, "discovery"), "ca", "rotate", "--caDir", s.authority).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var phases []string
	killed := *leafLife < 20*time.Second
	err := lab.Eventually(4*(*leafLife+10*time.Second)+patience, func() error {
		now := s.phase()
		if now != "" && (len(phases) == 0 || phases[len(phases)-1] != now) {
			phases = append(phases, now)
			t.Logf("%s: %s", time.Since(began).Round(time.Second), now)
		}
		if now == "leaves" && !killed {
			killed = true
			s.Discovery.Signal(syscall.SIGKILL)
			_, err := s.Discovery.Wait(patience) // its ports are taken until then
			s.Check(err)
			s.Check(s.Discovery.Restart())
		}
		if now != "" {
			return fmt.Errorf("the rotation is at %q", now)
		}
		root := s.roots(filepath.Join(s.authority, "root-cert.pem"))
		if len(root) != 1 || root[0].Equal(old) {
			return fmt.Errorf("%d roots", len(root))
		}
		return errors.Join(server.trusts(root[0]), client.trusts(root[0]))
	})
	if err != nil {
		t.Errorf("%v, after %q\n%s", err, phases, s.Discovery.Log())
	}
	if left := *underLoad - time.Since(began); err == nil && left > 0 {
		s.Check(lab.Eventually(left+patience, func() error {
			if time.Since(began) < *underLoad {
				return errors.New("more requests are to be sent")
			}
			return nil
		}))
	}
	t.Logf("the root was replaced under load, in %s", time.Since(began).Round(time.Second))
	for _, load := range loads {
		lab.Unharmed(t, load)
	}
	for m, pid := range envoys {
		if now, err := m.Envoy(); err != nil || now != pid {
			t.Errorf("%s has Envoy %d, %v; want the same, %d\n%s", m.Name, now, err, pid, m.Log())
		}
	}
}
