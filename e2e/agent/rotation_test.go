package agent

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// secured is a standalone whose listener presents the certificate in a directory, by file SDS.
type secured struct {
	*standalone
	authority *lab.Authority
	certs     string
}

func startSecured(t *testing.T, watchDirectory bool, flags ...string) *secured {
	t.Helper()
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{newStandalone(t), authority, filepath.Join(t.TempDir(), "certs")}
	s.rotate(1001)
	secret := filepath.Join(t.TempDir(), "secret.json")
	watched := ""
	if watchDirectory {
		watched = fmt.Sprintf(`, "watched_directory": {"path": %q}`, s.certs)
	}
	s.must(os.WriteFile(secret, fmt.Appendf(nil, `{"resources": [{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "identity", "tls_certificate": {
		"certificate_chain": {"filename": "%s/cert-chain.pem"}, "private_key": {"filename": "%[1]s/key.pem"}%s}}]}`, s.certs, watched), 0o600))
	s.mutate = func(text string) string {
		return strings.Replace(text, `"filter_chains": [{`, fmt.Sprintf(`"filter_chains": [{"transport_socket": {"name": "tls", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
			"common_tls_context": {"tls_certificate_sds_secret_configs": [{"name": "identity", "sds_config":
				{"resource_api_version": "V3", "path_config_source": {"path": %q}}}]}}}, `, secret), 1)
	}
	s.configure(1)
	s.launch(append([]string{"--certDir", s.certs}, flags...)...)
	s.must(s.presents(1001, lab.StopLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	return s
}

// rotate mounts another certificate.
func (s *secured) rotate(serial int64) {
	s.t.Helper()
	identity, err := s.authority.Issue("workload", serial)
	s.must(err)
	s.must(identity.Mount(s.certs))
}

// shake makes a TLS handshake and returns the serial number that was presented.
func (s *secured) shake() (int64, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: lab.StopLimit}, "tcp", s.address, &tls.Config{RootCAs: s.authority.Pool(), ServerName: "workload"})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func (s *secured) presents(serial int64, limit time.Duration) error {
	return lab.Eventually(limit, func() error {
		got, err := s.shake()
		if err == nil && got != serial {
			err = fmt.Errorf("certificate %d is presented, want %d", got, serial)
		}
		return err
	})
}

// handshakes makes up to two hundred a second until it is stopped, and reports those that fail.
func (s *secured) handshakes() (stop func()) {
	done, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				s.t.Logf("%d handshakes", n)
				return
			case <-time.After(5 * time.Millisecond):
				if _, err := s.shake(); err != nil {
					s.t.Errorf("handshake: %v", err)
				}
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); ended.Wait() })
	s.t.Cleanup(stop) // of a test that fails first
	return stop
}

// A bad certificate on disk does not put an Envoy out of service that holds a good one: it is degraded, with the time that
// is left. After a restart of Envoy, which reads the files itself, it is not ready.
func TestABadCertificateOnDisk(t *testing.T) {
	t.Parallel()
	s := startSecured(t, true)
	bad, err := s.authority.Issue("workload", 1002)
	s.must(err)
	bad.Key = []byte("rubbish")
	s.must(bad.Mount(s.certs))
	s.must(lab.Eventually(lab.StopLimit, func() error {
		body, err := lab.Get("http://" + s.status + "/status")
		for _, want := range []string{"certificates: Envoy holds a certificate that is valid until ", " left), that of the files cannot be used: ", `"held"`} {
			if err == nil && !strings.Contains(body, want) {
				err = fmt.Errorf("status has no %q: %s", want, body)
			}
		}
		return err
	}))
	a, err := s.ask()
	s.must(err)
	if !a.Ready || a.Readiness.Changes != 1 {
		t.Errorf("status %+v, want one that has been ready all the time", a)
	}
	s.must(s.presents(1001, lab.StopLimit))
	s.must(syscall.Kill(s.pid("serving"), syscall.SIGKILL))
	s.must(s.awaitStatus(lab.StopLimit, "a restarted Envoy that is not ready", func(a agentStatus) bool {
		return a.Counts["Envoy ended unasked"] == 1 && len(a.Epochs) == 1 && a.Epochs[0].State == "serving" && !a.Ready
	}))
	s.rotate(1003)
	s.must(s.awaitStatus(lab.StopLimit, "ready", func(a agentStatus) bool { return a.Ready }))
	s.must(s.presents(1003, lab.StopLimit))
}

// Three rotations as Kubernetes makes them: each new certificate is presented and told by /certs, Envoy stays, and no
// handshake fails.
func TestRotation(t *testing.T) {
	t.Parallel()
	s := startSecured(t, true)
	pid := s.pid("serving")
	stop := s.handshakes()
	for serial := int64(1002); serial <= 1004; serial++ {
		s.rotate(serial)
		s.must(s.presents(serial, lab.StopLimit))
		s.must(s.AwaitLog(fmt.Sprintf(`msg="certificate rotated" serial=%04x`, serial)))
		certs, err := lab.Get("http://" + s.Admin + "/certs")
		s.must(err)
		if !strings.Contains(certs, fmt.Sprintf(`"serial_number": "%04x"`, serial)) {
			t.Errorf("/certs does not show %04x:\n%s", serial, certs)
		}
	}
	stop()
	if now := s.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d", now, pid)
	}
}

// Any fault that keeps Envoy from taking a new certificate is noticed, and answered by a handover.
func TestRotationThatEnvoyMisses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		watch bool
		flags []string
		blow  func(s *secured)
	}{
		{"its watched directory was deleted and made again", true, nil, func(s *secured) {
			s.must(os.RemoveAll(s.certs))
			s.rotate(1002)
		}},
		{"it is told to take certificates by a handover only", true, []string{"--certRotation", "restart"}, func(s *secured) { s.rotate(1002) }},
		{"the files were overwritten in place", true, nil, func(s *secured) {
			identity, err := s.authority.Issue("workload", 1002)
			s.must(err)
			s.must(os.WriteFile(filepath.Join(s.certs, "key.pem"), identity.Key, 0o600))
			s.must(os.WriteFile(filepath.Join(s.certs, "cert-chain.pem"), identity.Chain, 0o600))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startSecured(t, test.watch, test.flags...)
			pid := s.pid("serving")
			stop := s.handshakes()
			test.blow(s)
			s.must(s.presents(1002, 30*time.Second))
			s.must(s.awaitStatus(30*time.Second, "a newcomer alone", func(a agentStatus) bool {
				return a.servedByAnother(pid)
			}))
			stop()
		})
	}
}

// A pair that is half-written changes nothing but what the status says, until the other half comes.
func TestRotationHalfWritten(t *testing.T) {
	t.Parallel()
	s := startSecured(t, true, "--certRotation", "restart")
	pid := s.pid("serving")
	stop := s.handshakes()
	identity, err := s.authority.Issue("workload", 1002)
	s.must(err)
	s.must(os.WriteFile(filepath.Join(s.certs, "cert-chain.pem"), identity.Chain, 0o600))
	s.must(lab.Eventually(lab.StopLimit, func() error {
		body, err := lab.Get("http://" + s.status + "/status")
		if err == nil && !strings.Contains(body, "is not the key of the leaf certificate") {
			err = fmt.Errorf("status does not name the fault:\n%s", body)
		}
		return err
	}))
	// A change that asks for a handover meanwhile is refused, for its newcomer would not serve.
	s.configure(2)
	s.must(s.awaitStatus(lab.StopLimit, "a refusal", func(a agentStatus) bool {
		return a.Refusal != nil && strings.Contains(a.Refusal.Reason, "is not the key of the leaf certificate")
	}))
	if now := s.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d", now, pid)
	}
	s.must(os.WriteFile(filepath.Join(s.certs, "key.pem"), identity.Key, 0o600))
	s.must(s.presents(1002, 30*time.Second))
	stop()
}
