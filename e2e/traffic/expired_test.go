package traffic

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The certificates of two agents end while the authority is away, and their tokens are revoked. Both say so, and no request is served by such a
// certificate; when the authority is back they name the one command. It mends them: no Envoy starts again, and no back-off is waited for.
func TestATokenMendsAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	s := newSigned(t, "--caTTL", "10s")
	tokens := map[string]string{"server": s.token("server"), "client": s.token("client")}
	server := s.join("server", tokens["server"]).await()
	client := s.join("client", tokens["client"]).await()
	members, envoys := []*member{server, client}, map[*member]int{}
	s.serves(server, lab.Port(t), s.BackendAt("127.0.0.1", "app"), "server", "{tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {maxRequestsPerConnection: 1}}}")
	client.gets("app")
	for _, m := range members {
		var err error
		envoys[m], err = m.Envoy()
		s.Check(err)
	}
	s.Discovery.Stop(lab.StopLimit)
	for _, token := range tokens {
		s.command("discovery", "token", "revoke", strings.Split(token, "-")[1], "--caDir", s.authority)
	}
	for _, m := range members {
		m.tells("expired at", "connection refused")
		s.Check(m.AwaitLog("certificates cannot be used"))
		s.Check(m.AwaitLog("expired at"))
	}
	// Of the files that its Sidecar names, sooner than they are looked at again.
	s.Check(server.AwaitLog("a certificate that discovery names cannot be used"))
	if body, err := client.get(); err == nil {
		t.Errorf("served with expired certificates: %s", body)
	}
	s.Check(s.Discovery.Restart())
	for _, m := range members {
		m.tells("expired at", "401 Unauthorized", "agent join --token-file FILE")
		s.Check(m.AwaitLog("agent join --token-file FILE"))
	}
	began := time.Now()
	for _, m := range members {
		s.command("agent", "join", "--token", s.token(m.account), "--caToken", m.tokens)
	}
	client.gets("app")
	t.Logf("two tokens mended in %s", time.Since(began).Round(10*time.Millisecond))
	for _, m := range members {
		if now, err := m.Envoy(); err != nil || now != envoys[m] {
			t.Errorf("%s: Envoy %d, %v; want the same, %d", m.Name, now, err, envoys[m])
		}
	}
}

// counting is an authority that signs nothing, and counts who asks: it refuses, or while it is away ends connections before it has said anything.
type counting struct {
	address, roots string
	away           atomic.Bool
	asked, refused atomic.Int64
}

func (s *signed) counting(away bool) *counting {
	s.T.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.Check(err)
	authority, err := lab.NewAuthority("counting")
	s.Check(err)
	id, err := authority.IssueWith("localhost", 1, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	s.Check(err)
	pair, err := id.Pair()
	s.Check(err)
	c := &counting{address: l.Addr().String(), roots: filepath.Join(s.T.TempDir(), "roots.pem")}
	s.Check(os.WriteFile(c.roots, authority.PEM(), 0o600))
	c.away.Store(away)
	server := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c.asked.Add(1)
			if c.away.Load() {
				hello.Conn.Close() // before an alert
			}
			return nil, nil
		}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}),
	}
	go server.ServeTLS(l, "", "")
	s.T.Cleanup(func() { server.Close() })
	return c
}

// An agent without a certificate asks an authority that cannot be reached more often than one that refuses, and soon after it is back.
func TestAnAuthorityThatIsAwayIsAskedOften(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	away, refusing := s.counting(true), s.counting(false)
	for _, c := range []*counting{away, refusing} {
		s.join("client", "none", "--caAddress", c.address, "--caRoots", c.roots)
	}
	s.Check(lab.Eventually(2*patience, func() error {
		if n := away.asked.Load(); n < 12 {
			return fmt.Errorf("the authority that is away was asked %d times, want 12", n)
		}
		return nil
	}))
	if n, refused := away.asked.Load(), refusing.refused.Load(); refused == 0 || refused > n*2/3 {
		t.Errorf("the one that refuses was asked %d times, and the one that is away %d times", refused, n)
	}
	away.away.Store(false)
	before := refusing.refused.Load()
	s.Check(lab.Eventually(2*patience, func() error {
		if away.refused.Load() == 0 {
			return errors.New("it is back, and was not asked")
		}
		return nil
	}))
	if n := refusing.refused.Load() - before; n > 1 {
		t.Errorf("the one that refuses was asked %d times until the other one was asked that is back", n)
	}
}

// command runs one of our programs, and returns what it says.
func (s *signed) command(program string, args ...string) string {
	s.T.Helper()
	out, err := exec.CommandContext(s.T.Context(), filepath.Join(s.Bin, program), args...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// tells waits until the status and the readiness of an agent, which is not ready, have all of these words.
func (m *member) tells(words ...string) {
	m.s.T.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: lab.StopLimit}
	if err := lab.Eventually(patience, func() error {
		for path, status := range map[string]int{"/status": http.StatusOK, "/healthz/ready": http.StatusServiceUnavailable} {
			a, err := lab.Exchange(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", m.status, path))
			if err == nil {
				err = lab.Status(status)(a)
			}
			for _, word := range words {
				if err == nil && !strings.Contains(a.Body, word) {
					err = fmt.Errorf("%s of %s has no %q: %s", path, m.Name, word, a.Body)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		m.s.T.Fatalf("%v\n%s", err, m.Log())
	}
}
