package traffic

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// patience is for what takes seconds on a machine that has nothing else to do.
const patience = 90 * time.Second

// signed is a world whose discovery is an authority.
type signed struct {
	*world
	authority, secure string // its directory, its host:port
}

func newSigned(t *testing.T, flags ...string) *signed {
	t.Helper()
	s := &signed{authority: filepath.Join(t.TempDir(), "ca"), secure: fmt.Sprintf("127.0.0.1:%d", lab.Port(t))}
	s.world = newWorld(t, append([]string{"--ca", "--caDir", s.authority, "--secureGRPCAddr", s.secure}, flags...)...)
	return s
}

// token makes a join token of an account of the namespace default.
func (s *signed) token(account string, flags ...string) string {
	s.T.Helper()
	out, err := exec.CommandContext(s.T.Context(), filepath.Join(s.Bin, "discovery"), append([]string{
		"token", "create", "--namespace", "default", "--service-account", account, "--caDir", s.authority,
	}, flags...)...).Output()
	s.Check(err)
	return strings.TrimSpace(string(out))
}

// member is an agent that gets its certificate from the authority.
type member struct {
	*lab.Sidecar
	account    string
	s          *signed
	ip, tokens string
	proxy      int
	status     int
}

func (s *signed) join(name, token string, flags ...string) *member {
	s.T.Helper()
	return s.joinAs("sidecar", name, token, flags...)
}

func (s *signed) joinAs(role, name, token string, flags ...string) *member {
	s.T.Helper()
	m := &member{account: name, s: s, ip: s.Address(), tokens: filepath.Join(s.T.TempDir(), "token"), proxy: lab.Port(s.T), status: lab.Port(s.T)}
	s.Check(os.WriteFile(m.tokens, []byte(token), 0o600))
	var err error
	m.Sidecar, err = lab.Lab{Bin: s.Bin, Envoy: s.Envoy, Dir: lab.ShortDir(s.T)}.Sidecar(lab.Workload{
		Role: role, Name: name, App: name, IP: m.ip, ProxyPort: m.proxy, Discovery: s.secure, Env: s.Env,
		Flags: append([]string{
			"--caAddress", s.secure, "--caRoots", filepath.Join(s.authority, "root-cert.pem"), "--caToken", m.tokens, "--statusPort", fmt.Sprint(m.status),
		}, flags...),
	})
	s.Check(err)
	s.T.Cleanup(func() { m.Stop(lab.StopLimit) })
	return m
}

func (m *member) certificates() string { return filepath.Join(m.ConfigPath, "certificates") }

func (m *member) await() *member {
	m.s.T.Helper()
	if err := lab.Eventually(patience, func() error { _, err := lab.Get("http://" + m.Admin + "/ready"); return err }); err != nil {
		m.s.T.Fatalf("%v\n%s", err, m.Log())
	}
	return m
}

// serial is that of the certificate that the agent reports.
func (m *member) serial() (string, error) {
	text, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/status", m.status))
	if err != nil {
		return "", err
	}
	var status struct {
		Certificates []struct{ Serial, Fault string }
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return "", err
	}
	if len(status.Certificates) == 0 || status.Certificates[0].Fault != "" {
		return "", fmt.Errorf("certificates %+v", status.Certificates)
	}
	return status.Certificates[0].Serial, nil
}

// mutual makes a service of a member that takes mutual TLS alone, and has clients speak it.
func (s *signed) mutual(server *member, b *lab.Backend) (port int) {
	s.T.Helper()
	port = lab.Port(s.T)
	s.serves(server, port, b, "server", "{tls: {mode: ISTIO_MUTUAL}}")
	return port
}

// serves makes that service: account is that of its endpoint, policy that of clients.
func (s *signed) serves(server *member, port int, b *lab.Backend, account, policy string) {
	s.T.Helper()
	file := func(name string) string { return filepath.Join(server.certificates(), name) }
	s.ApplyAtOnce("server.yaml",
		"ServiceEntry server", fmt.Sprintf(`hosts: [server.test]
resolution: STATIC
location: MESH_INTERNAL
ports: [{number: 80, name: http, protocol: HTTP}]
endpoints: [{address: %s, ports: {http: %d}, labels: {app: server}, serviceAccount: %s}]`, server.ip, port, account),
		"Sidecar server", fmt.Sprintf(`workloadSelector: {labels: {app: server}}
ingress:
- port: {number: %d, name: http, protocol: HTTP}
  bind: %s
  defaultEndpoint: 127.0.0.1:%d
  tls: {mode: MUTUAL, serverCertificate: %s, privateKey: %s, caCertificates: %s}
egress: [{hosts: ["*/*"]}]`, port, server.ip, b.Port, file("cert-chain.pem"), file("key.pem"), file("root-cert.pem")),
		"DestinationRule server", "host: server.test\ntrafficPolicy: "+policy)
}

// explains waits until the running discovery says this of a request of a member.
func (s *signed) explains(client *member, words ...string) {
	s.T.Helper()
	s.Check(lab.Eventually(patience, func() error {
		text := s.command("discovery", "explain", "--httpAddr", s.Discovery.HTTP, "--from", client.account+".default", "--to", "server.test")
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("explain has no %q:\n%s", word, text)
			}
		}
		return nil
	}))
}

func (m *member) get() (string, error) {
	return lab.GetThrough(fmt.Sprintf("127.0.0.1:%d", m.proxy), "http://server.test/")
}

// fails waits until a request gets another status than 200.
func (m *member) fails(status string) {
	m.s.T.Helper()
	if err := lab.Eventually(patience, func() error {
		if body, err := m.get(); err == nil || !strings.Contains(err.Error(), status) {
			return fmt.Errorf("the answer is %q, %v; want %s", body, err, status)
		}
		return nil
	}); err != nil {
		m.s.T.Fatalf("%v\n%s", err, m.Log())
	}
}

func (m *member) gets(want string) {
	m.s.T.Helper()
	if err := lab.Eventually(patience, func() error {
		body, err := m.get()
		if err == nil && !strings.Contains(body, want) {
			err = fmt.Errorf("body %q, want %q", body, want)
		}
		return err
	}); err != nil {
		m.s.T.Fatalf("%v\n%s", err, m.Log())
	}
}

// On a fresh machine: discovery, a token of each account, two agents; no other program makes a key.
func TestJoinTokensBringMutualTLS(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	server := s.join("server", s.token("server", "--once")).await()
	client := s.join("client", s.token("client", "--once")).await()
	b := s.BackendAt("127.0.0.1", "app")
	port := s.mutual(server, b)
	client.gets("app")

	at := net.JoinHostPort(server.ip, fmt.Sprint(port))
	if body, err := lab.Get("http://" + at + "/"); err == nil {
		t.Errorf("plain text is answered: %s", body)
	}
	if body, err := lab.ClientTo(at, &tls.Config{InsecureSkipVerify: true}).Get("https://server.test/"); err == nil {
		t.Errorf("a client without a certificate is answered: %s", body.Status)
	}
	modesOf(t, s.authority)
	modesOf(t, client.certificates())
	s.refusals(server, client, port, b)
}

// refusals has the server's account be another than the service says, and then a policy that names another client. One command names both
// identities each time, and the policy with its rule.
func (s *signed) refusals(server, client *member, port int, b *lab.Backend) {
	s.T.Helper()
	const id, other = "spiffe://cluster.local/ns/default/sa/", "spiffe://cluster.local/ns/default/sa/other"
	s.serves(server, port, b, "other", "{tls: {mode: ISTIO_MUTUAL}}")
	client.fails("503")
	s.explains(client, "the server is "+id+"server, but the client wants \""+other+`"`)
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		why := s.command("agent", "why", "--statusPort", fmt.Sprint(client.status))
		for _, word := range []string{"discovery explain --from WORKLOAD --to server.test:80", "the server's certificate has another name than the one that is expected", id + "server"} {
			if !strings.Contains(why, word) {
				return fmt.Errorf("agent why has no %q:\n%s", word, why)
			}
		}
		return nil
	}))
	s.serves(server, port, b, "server", "{tls: {mode: ISTIO_MUTUAL}}")
	client.gets("app")
	s.Apply("AuthorizationPolicy readers", "rules: [{to: [{operation: {methods: [POST]}}]}, {from: [{source: {principals: [cluster.local/ns/default/sa/other]}}]}]")
	client.fails("403")
	s.explains(client, "the client is "+id+"client, want \""+other+`"`, "policy[readers]-rule[1]", "AuthorizationPolicy default/readers")
}

// modesOf checks that no other user reads a key, or anything in the directory.
func modesOf(t *testing.T, dir string) {
	t.Helper()
	keys := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		switch key := strings.Contains(path, "key") || strings.Contains(path, "token"); {
		case err != nil:
			return err
		case path == dir && info.Mode().Perm() != 0o700:
			return fmt.Errorf("%s has mode %s", path, info.Mode())
		case key && info.Mode().IsRegular() && info.Mode().Perm() != 0o600:
			return fmt.Errorf("%s has mode %s", path, info.Mode())
		case key:
			keys++
		}
		return nil
	})
	if err != nil || keys == 0 {
		t.Errorf("%d keys, %v", keys, err)
	}
}

// Leaves of twenty seconds are renewed under load, also after the authority was away when one was due, and no request fails.
func TestRenewalsUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSigned(t, "--caTTL", "20s")
	server := s.join("server", s.token("server")).await()
	client := s.join("client", s.token("client")).await()
	s.mutual(server, s.BackendAt("127.0.0.1", "app"))
	client.gets("app")
	load := lab.StartSlowLoad(fmt.Sprintf("127.0.0.1:%d", client.proxy), "http://server.test/", 2, 2, 20*time.Millisecond)
	seen := map[*member]map[string]bool{server: {}, client: {}}
	err := lab.Eventually(2*patience, func() error {
		for m, serials := range seen {
			if serial, err := m.serial(); err == nil {
				serials[serial] = true
			}
			if len(serials) < 4 {
				return fmt.Errorf("%s has had %d certificates, want 4", m.Name, len(serials))
			}
		}
		return nil
	})
	late := s.away(server, client)
	lab.Unharmed(t, load)
	t.Logf("the authority was away past a renewal of %s", late.Name)
	if err != nil {
		t.Errorf("%v\n%s", err, client.Log())
	}
}

// away stops discovery until a renewal fails, and waits until that agent has another certificate.
func (s *signed) away(members ...*member) (late *member) {
	s.T.Helper()
	serials, failed := map[*member]string{}, map[*member]int{}
	const says = "certificate not renewed"
	for _, m := range members {
		failed[m] = strings.Count(m.Log(), says)
	}
	s.Discovery.Stop(lab.StopLimit)
	for _, m := range members {
		var err error
		serials[m], err = m.serial()
		s.Check(err)
	}
	s.Check(lab.Eventually(patience, func() error {
		for _, m := range members {
			if strings.Count(m.Log(), says) > failed[m] {
				late = m
				return nil
			}
		}
		return errors.New("no renewal was due while the authority was away")
	}))
	s.Check(s.Discovery.Restart())
	s.Check(lab.Eventually(patience, func() error {
		if now, err := late.serial(); err != nil || now == serials[late] {
			return fmt.Errorf("serial %s, %w\n%s", now, err, late.Log())
		}
		return nil
	}))
	return late
}

// The status names the command that mends a dead token, and Envoy stays.
func TestAnotherTokenMends(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	once := s.token("client", "--once")
	s.join("client", once).await()
	late := s.join("late", once) // stolen: used for another key
	if err := lab.Eventually(patience, func() error {
		text, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/status", late.status))
		if err == nil && !strings.Contains(text, "agent join --token-file FILE") {
			err = errors.New(text)
		}
		return err
	}); err != nil {
		t.Fatalf("%v\n%s", err, late.Log())
	}
	if body, err := lab.Get("http://" + late.Admin + "/ready"); err == nil {
		t.Errorf("ready without a certificate: %s", body)
	}
	s.Check(s.Discovery.AwaitLog("was used for another key"))
	envoy, err := late.Envoy()
	s.Check(err)
	out, err := exec.CommandContext(t.Context(), filepath.Join(s.Bin, "agent"), "join", "--token", s.token("late"), "--caToken", late.tokens).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	late.await()
	if now, err := late.Envoy(); err != nil || now != envoy {
		t.Errorf("Envoy %d, %v; want the same, %d", now, err, envoy)
	}
}

// In a configPath that is open to others, as a volume of Kubernetes is, the certificate is in the agent's own directory, and an
// agent that starts again has it, without a token.
func TestACertificateInADirectoryThatIsOpenToOthers(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	parent := lab.ShortDir(t)
	s.Check(os.Chmod(parent, 0o755))
	open := filepath.Join(parent, "open")
	s.Check(os.Mkdir(open, 0o700))
	s.Check(os.Chmod(open, 0o777))
	m := s.join("client", s.token("client", "--once"), "--configPath", open).await()
	modesOf(t, filepath.Join(open, "private-0", "certificates"))
	first, err := m.serial()
	s.Check(err)
	m.Stop(lab.StopLimit)
	again := s.join("client", "none", "--configPath", open).await()
	if second, err := again.serial(); err != nil || second != first {
		t.Errorf("after a restart %s, %v; want %s", second, err, first)
	}
}

// Another image of the agent goes on with the certificate and with the lock of its directory, and it renews.
func TestAnUpgradeKeepsTheCertificate(t *testing.T) {
	t.Parallel()
	s := newSigned(t, "--caTTL", "20s")
	m := s.join("client", s.token("client", "--once")).await()
	status := fmt.Sprintf("http://127.0.0.1:%d/status", m.status)
	for n := 1; n <= 2; n++ {
		before, err := m.serial()
		s.Check(err)
		m.Signal(syscall.SIGUSR2)
		s.Check(lab.Eventually(patience, func() error {
			text, err := lab.Get(status)
			if err == nil && !strings.Contains(text, fmt.Sprintf(`"count": %d`, n)) {
				err = fmt.Errorf("not upgraded: %s", text)
			}
			return err
		}))
		s.Check(lab.Eventually(patience, func() error { // the image after an upgrade renews
			if now, err := m.serial(); err != nil || now == before {
				return fmt.Errorf("serial %s, %w", now, err)
			}
			return nil
		}))
		lock, err := os.Open(filepath.Join(m.certificates(), "..lock"))
		s.Check(err)
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			t.Errorf("after upgrade %d another agent may take the certificate's directory", n)
		}
		lock.Close()
	}
}
