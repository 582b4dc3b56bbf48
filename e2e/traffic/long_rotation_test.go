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

// phase returns how far the rotation of discovery's own root is, "" for none.
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

// phaseOf returns how far the rotation in a copy is, "" for none.
func (s *signed) phaseOf(path string) string {
	s.T.Helper()
	text, err := os.ReadFile(path)
	var stored struct{ Rotation struct{ Phase string } }
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	s.Check(err)
	return stored.Rotation.Phase
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

// loaded is a server and a client that asks it all the time, over connections that stay and over new ones.
type loaded struct {
	*signed
	server, client *member
	loads          []*lab.Load
	envoys         map[*member]int
}

func newLoaded(t *testing.T, life time.Duration, flags ...string) *loaded {
	t.Helper()
	s := newSigned(t, append([]string{"--caTTL", life.String(), "--caMaxTTL", life.String()}, flags...)...)
	l := &loaded{signed: s, server: s.join("server", s.token("server")).await(), client: s.join("client", s.token("client")).await(), envoys: map[*member]int{}}
	port := s.mutual(l.server, s.BackendAt("127.0.0.1", "app"))
	s.ApplyAtOnce("fresh.yaml",
		"ServiceEntry fresh", fmt.Sprintf(`hosts: [fresh.test]
resolution: STATIC
location: MESH_INTERNAL
ports: [{number: 80, name: http, protocol: HTTP}]
endpoints: [{address: %s, ports: {http: %d}, labels: {app: server}, serviceAccount: server}]`, l.server.ip, port),
		"DestinationRule fresh", "host: fresh.test\ntrafficPolicy: {tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {maxRequestsPerConnection: 1}}}")
	l.client.gets("app")
	for _, m := range []*member{l.server, l.client} {
		pid, err := m.Envoy()
		s.Check(err)
		l.envoys[m] = pid
	}
	at := fmt.Sprintf("127.0.0.1:%d", l.client.proxy)
	s.Check(lab.Eventually(patience, func() error { _, err := lab.GetThrough(at, "http://fresh.test/"); return err }))
	l.loads = []*lab.Load{
		lab.StartSlowLoad(at, "http://server.test/", 1, 1, 2*time.Millisecond), lab.StartSlowLoad(at, "http://fresh.test/", 1, 1, 2*time.Millisecond),
	}
	if *steady > 0 {
		l.loads = append(l.loads, lab.StartSlowLoad(at, "http://server.test/", *steady, 0, 0))
	}
	return l
}

// restarts kills discovery, calls while and starts it again.
func (l *loaded) restarts(while func()) {
	l.T.Helper()
	l.Discovery.Signal(syscall.SIGKILL)
	_, err := l.Discovery.Wait(patience) // its ports are taken until then
	l.Check(err)
	while()
	l.Check(l.Discovery.Restart())
}

// awaits waits until there is no rotation, and both members trust another root than old alone. In the phase leaves it kills discovery once if kills.
func (l *loaded) awaits(life time.Duration, old *x509.Certificate, phase func() string, kills bool) {
	l.T.Helper()
	began := time.Now()
	var phases []string
	if err := lab.Eventually(4*(life+10*time.Second)+patience, func() error {
		now := phase()
		if now != "" && (len(phases) == 0 || phases[len(phases)-1] != now) {
			phases = append(phases, now)
			l.T.Logf("%s: %s", time.Since(began).Round(time.Second), now)
		}
		if now == "leaves" && kills {
			kills = false
			l.restarts(func() {})
		}
		if now != "" {
			return fmt.Errorf("the rotation is at %q", now)
		}
		root := l.roots(filepath.Join(l.authority, "root-cert.pem"))
		if len(root) != 1 || root[0].Equal(old) {
			return fmt.Errorf("%d roots", len(root))
		}
		return errors.Join(l.server.trusts(root[0]), l.client.trusts(root[0]))
	}); err != nil {
		l.T.Errorf("%v, after %q\n%s", err, phases, l.Discovery.Log())
	}
	if len(phases) == 0 {
		l.T.Error("no phase of a rotation was seen")
	}
	l.T.Logf("the root was replaced under load, in %s", time.Since(began).Round(time.Second))
}

// unharmed checks that no request has failed, and that no Envoy was started again.
func (l *loaded) unharmed() {
	l.T.Helper()
	for _, load := range l.loads {
		lab.Unharmed(l.T, load)
	}
	for m, pid := range l.envoys {
		if now, err := m.Envoy(); err != nil || now != pid {
			l.T.Errorf("%s has Envoy %d, %v; want the same, %d\n%s", m.Name, now, err, pid, m.Log())
		}
	}
}

// A root is replaced under load, while leaves are renewed all the time: over connections that stay and over new ones no request fails,
// and no Envoy is started again.
func TestLongARootIsReplacedUnderLoad(t *testing.T) {
	l := newLoaded(t, *leafLife)
	old := l.roots(filepath.Join(l.authority, "root-cert.pem"))[0]
	began := time.Now()
	l.command("discovery", "ca", "rotate", "--caDir", l.authority)
	l.awaits(*leafLife, old, l.phase, *leafLife >= 20*time.Second)
	if left := *underLoad - time.Since(began); !t.Failed() && left > 0 {
		l.Check(lab.Eventually(left+patience, func() error {
			if time.Since(began) < *underLoad {
				return errors.New("more requests are to be sent")
			}
			return nil
		}))
	}
	l.unharmed()
}

// The files of the authority are replaced while discovery does not run, and it is killed again when the new key has begun to sign: no request fails.
func TestLongFilesOfAnAuthorityAreReplacedUnderLoad(t *testing.T) {
	const life = 20 * time.Second
	state := filepath.Join(t.TempDir(), "state")
	l := newLoaded(t, life, "--stateDir", state)
	old := l.roots(filepath.Join(l.authority, "root-cert.pem"))[0]
	other, err := lab.NewAuthority("another root")
	l.Check(err)
	l.restarts(func() { l.Check(other.Plug(l.authority)) })
	l.awaits(life, old, func() string { return l.phaseOf(filepath.Join(state, "authority", "copy.json")) }, true)
	l.unharmed()
}
