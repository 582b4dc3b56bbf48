package traffic

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// STRICT holds after its directory is left without any object, gets another object, or cannot be read, and over restarts after each of
// that, until an operator releases the source. The service itself is of another directory.
func TestStrictOutlivesItsDirectory(t *testing.T) {
	t.Parallel()
	services, state, settings := t.TempDir(), filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte(`configSources: [{address: "fs://`+services+`"}]`+truth.Logged), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newPeers(t, "--meshConfig", settings, "--stateDir", state, "--wipeDelay", "1s", "--registrySyncTimeout", "2s")
	for _, file := range []string{"serviceentry-app.yaml", "sidecar-server.yaml"} {
		p.Check(os.Rename(filepath.Join(p.Config, file), filepath.Join(services, file)))
	}
	beside, endpoints := *p.World, 0
	beside.Config = services
	// arrives waits until a change that is made now is at the server's Envoy: so are those before it.
	arrives := func() {
		t.Helper()
		var all []string
		for endpoints++; len(all) < endpoints; {
			all = append(all, fmt.Sprintf("{address: 127.0.0.1, ports: {http: %d}}", 1000+len(all)))
		}
		beside.ServiceOf("nobody.test", "HTTP", all...)
		p.Check(lab.Eventually(time.Minute, func() error {
			if n := p.proxy.Stat(`^cluster\.outbound\|80\|\|nobody\.test\.membership_total$`); n != int64(endpoints) {
				return fmt.Errorf("Envoy has %d endpoints of nobody.test, want %d", n, endpoints)
			}
			return nil
		}))
	}
	arrives()
	const stranded = "source config: it was left without any object: 1 policies of it count until they are back, or until `discovery release config`"
	own := p.certificate(p.ca.Authority, meshClient, func(*x509.Certificate) {})
	holds := func(what string) {
		t.Helper()
		arrives()
		for protocol := range p.ports {
			if got, err := p.dial(protocol, nil); err == nil {
				t.Fatalf("%s, port %q: plain text is answered by %q", what, protocol, got)
			}
			alpn := "istio"
			if protocol == "HTTP" {
				alpn = "istio-http/1.1"
			}
			p.reaches(protocol, meshTLS(own, alpn), true)
		}
	}
	restart := func() {
		t.Helper()
		p.Discovery.Stop(lab.StopLimit) // which writes what is kept
		p.Check(p.Discovery.Restart())
	}
	p.reaches("HTTP", nil, true)
	p.Apply("PeerAuthentication default", "mtls: {mode: STRICT}")
	p.reaches("HTTP", nil, false)
	holds("STRICT")

	p.Remove("PeerAuthentication", "default")
	p.says("/ready?verbose", stranded)
	holds("emptied")
	restart()
	p.says("/ready?verbose", stranded)
	holds("emptied, after a restart")

	p.Service("other.test", p.Backend("other"))
	p.says("/v1/registration", "other.test")
	p.says("/ready?verbose", stranded)
	holds("with another object")
	restart()
	p.says("/v1/registration", "other.test")
	p.says("/ready?verbose", stranded)
	holds("with another object, after a restart")

	p.Check(os.Rename(p.Config, p.Config+".away"))
	p.says("/ready?verbose", "configuration: it cannot be read, what it held is served", stranded)
	holds("unreadable")
	restart()
	p.says("/ready?verbose", "configuration: it cannot be read, what it held is served", stranded)
	holds("unreadable, after a restart")
	p.Check(os.Rename(p.Config+".away", p.Config))
	p.says("/ready?verbose", stranded)
	holds("readable again")

	out, err := exec.Command(lab.Program("discovery"), "release", "config", "--httpAddr", p.Discovery.HTTP).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no longer held") {
		t.Errorf("discovery release: %v: %s", err, out)
	}
	for protocol := range p.ports {
		p.reaches(protocol, nil, true)
	}
}
