package agent

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A control plane names the secrets "default" and "ROOTCA" and the agent's own cluster, as Istio's does: the listener waits
// until the workload has a certificate, asks clients for theirs, and follows a rotation. The newcomer of a handover too.
func TestSecretsByTheAgent(t *testing.T) {
	t.Parallel()
	p := startCertified(t)
	p.clusters(p.good)
	p.listeners(withAgentSecrets(tcpListener("l", p.inbound[0], "good")))
	p.await("unready", func(r told) bool { return r.code == 503 })
	if _, err := p.shake(p.own); err == nil {
		t.Error("the listener serves without a certificate")
	}
	p.mount(1001)
	p.presents(1001)
	if _, err := p.shake(); err == nil {
		t.Error("a client without a certificate is served")
	}
	p.mount(1002)
	p.presents(1002)
}

// certified is a pupil with certificates of an authority of its own.
type certified struct {
	*pupil
	authority *lab.Authority
	certs     string          // the agent's directory
	own       tls.Certificate // of a client
}

// startCertified starts an agent whose certificates have these serials, one after the other; without any it has none.
func startCertified(t *testing.T, serials ...int64) *certified {
	t.Helper()
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Issue("client", 7)
	if err != nil {
		t.Fatal(err)
	}
	own, err := client.Pair()
	if err != nil {
		t.Fatal(err)
	}
	s := &certified{authority: authority, certs: filepath.Join(t.TempDir(), "certs"), own: own}
	for _, serial := range serials {
		if err := s.issue(serial); err != nil {
			t.Fatal(err)
		}
	}
	s.pupil = startPupil(t, startScript(t), "--certDir", s.certs)
	return s
}

// issue puts a certificate of the workload into the agent's directory.
func (s *certified) issue(serial int64) error {
	identity, err := s.authority.Issue("workload", serial)
	if err != nil {
		return err
	}
	return identity.Mount(s.certs)
}

func (s *certified) mount(serial int64) {
	s.t.Helper()
	s.must(s.issue(serial))
}

// shake sends a request over TLS with these certificates, and returns the serial of the one that is presented.
func (s *certified) shake(certificates ...tls.Certificate) (int64, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", s.inbound[0],
		&tls.Config{RootCAs: s.authority.Pool(), ServerName: "workload", Certificates: certificates})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: workload\r\nConnection: close\r\n\r\n"); err != nil {
		return 0, err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // TLS 1.3 says so late that a certificate is missing
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// presents waits until the workload's certificate with a serial is presented.
func (s *certified) presents(serial int64) {
	s.t.Helper()
	s.must(lab.Eventually(lab.StopLimit, func() error {
		got, err := s.shake(s.own)
		if err == nil && got != serial {
			err = fmt.Errorf("certificate %d is presented, want %d", got, serial)
		}
		return err
	}))
}

// withAgentSecrets has a listener ask the agent for its certificate, and its clients for theirs.
func withAgentSecrets(listener string) string {
	config := `"sds_config": {"resource_api_version": "V3", "initial_fetch_timeout": "0s", "api_config_source": {
		"api_type": "GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
		"grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}]}}`
	return strings.Replace(listener, `"filter_chains": [{`, `"filter_chains": [{"transport_socket": {"name": "tls", "typed_config": {
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"require_client_certificate": true, "common_tls_context": {
			"tls_certificate_sds_secret_configs": [{"name": "default", `+config+`}],
			"validation_context_sds_secret_config": {"name": "ROOTCA", `+config+`}}}}, `, 1)
}
