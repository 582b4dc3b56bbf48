package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An Envoy that crashes while its certificate files are broken or gone is back with the last good ones: discovery,
// which asks for a certificate, configures it anew. Certificates that are mounted later are used.
func TestACrashWithBrokenCertificates(t *testing.T) {
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	authority, later := w.authorityOf("mesh"), time.Now().Add(time.Hour)
	address := w.secure(w.identity(authority, pilot, 1, later), authority.PEM())
	certs, port := filepath.Join(t.TempDir(), "certs"), lab.Port(w.T)
	w.Check(w.identity(authority, workload, 1001, later).Mount(certs))
	s := w.agent(lab.Workload{
		Name: "client", App: "client", IP: w.Address(), ProxyPort: port, Discovery: address,
		Flags: []string{"--controlPlaneAuthPolicy", "MUTUAL_TLS", "--certDir", certs, "--pilotIdentity", pilot},
	})
	presents := func(serial string) {
		t.Helper()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			body, err := lab.Get("http://" + s.Admin + "/certs")
			if err == nil && !strings.Contains(body, `"serial_number": "`+serial+`"`) {
				err = fmt.Errorf("no certificate %s in %s", serial, body)
			}
			return err
		}))
	}
	serves := func() {
		t.Helper()
		w.Await(lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", port), nil), "http://app.test/", lab.From("app"))
	}
	serves()
	for _, blow := range []struct {
		name   string
		strike func() error
		log    string // how the agent has seen it
	}{
		{"a key of no sense", func() error { return os.WriteFile(filepath.Join(certs, "key.pem"), []byte("rubbish"), 0o600) }, "has no PEM block"},
		{"no key", func() error { return os.Remove(filepath.Join(certs, "key.pem")) }, "key.pem"},
		{"an unreadable chain", func() error {
			path := filepath.Join(certs, "cert-chain.pem")
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700) // unreadable for root too
		}, "is a directory, want a file"},
		{"no directory", func() error { return os.RemoveAll(certs) }, "cert-chain.pem"},
	} {
		t.Log(blow.name)
		from := len(s.Log())
		w.Check(blow.strike())
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if log := s.Log()[from:]; !strings.Contains(log, blow.log) {
				return fmt.Errorf("the agent does not say %q:\n%s", blow.log, log)
			}
			return nil
		}))
		before, err := s.Envoy()
		w.Check(err)
		w.Check(syscall.Kill(before, syscall.SIGKILL))
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if now, err := s.Envoy(); err != nil || now == before {
				return fmt.Errorf("Envoy %d was not replaced: %d, %v", before, now, err)
			}
			return nil
		}))
		presents("03e9")
		serves()
	}
	w.Check(w.identity(authority, workload, 1002, later).Mount(certs))
	presents("03ea")
	serves()
}
