package traffic

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlspb "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretpb "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// station serves the secrets of a workload by SDS on a Unix socket, as SPIRE's agent does.
type station struct {
	secretpb.UnimplementedSecretDiscoveryServiceServer
	mu      sync.Mutex
	secrets map[string]*tlspb.Secret
	changed chan struct{} // closed with each change
	version int
}

func startStation(t *testing.T, socket string) *station {
	t.Helper()
	s := &station{changed: make(chan struct{})}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	secretpb.RegisterSecretDiscoveryServiceServer(server, s)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return s
}

func (s *station) set(secrets ...*tlspb.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets, s.version = map[string]*tlspb.Secret{}, s.version+1
	for _, one := range secrets {
		s.secrets[one.Name] = one
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *station) now() (map[string]*tlspb.Secret, int, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.secrets), s.version, s.changed
}

// StreamSecrets answers what is asked for first, and again with each change.
func (s *station) StreamSecrets(stream secretpb.SecretDiscoveryService_StreamSecretsServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	go func() {
		for { // acknowledgements
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	for {
		secrets, version, changed := s.now()
		answer := &discoverypb.DiscoveryResponse{TypeUrl: first.TypeUrl, VersionInfo: fmt.Sprint(version), Nonce: fmt.Sprint(version)}
		for _, name := range first.ResourceNames {
			if one, ok := secrets[name]; ok {
				packed, err := anypb.New(one)
				if err != nil {
					return err
				}
				answer.Resources = append(answer.Resources, packed)
			}
		}
		if len(answer.Resources) > 0 {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func inlineBytes(b []byte) *core.DataSource {
	return &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: b}}
}

// document returns the secrets of an identity, by the names that SPIRE gives them as docs/certificates.md sets it up.
func document(identity lab.Identity) []*tlspb.Secret {
	return []*tlspb.Secret{
		{Name: "default", Type: &tlspb.Secret_TlsCertificate{TlsCertificate: &tlspb.TlsCertificate{
			CertificateChain: inlineBytes(identity.Chain), PrivateKey: inlineBytes(identity.Key),
		}}},
		{Name: "ROOTCA", Type: &tlspb.Secret_ValidationContext{ValidationContext: &tlspb.CertificateValidationContext{TrustedCa: inlineBytes(identity.Roots)}}},
	}
}

// spired starts a sidecar in a directory that has the socket of SPIRE's agent, and returns the port of its outbound HTTP.
func (w *world) spired(name, ip, dir, template string) (proxy int) {
	w.T.Helper()
	file := filepath.Join(dir, "spire.json.tmpl")
	w.Check(os.WriteFile(file, []byte(strings.ReplaceAll(template, "/run/spire/sockets/agent.sock", filepath.Join(dir, "agent.sock"))), 0o600))
	proxy = lab.Port(w.T)
	s, err := lab.Lab{Bin: w.Bin, Envoy: w.Envoy, Dir: dir}.Sidecar(lab.Workload{
		Name: name, App: name, IP: ip, ProxyPort: proxy, Discovery: w.Discovery.GRPC,
		Flags: []string{"--templateFile", file, "--statusPort", "0"}, Env: []string{"ISTIO_META_PILOTLIGHT_SDS=files", "ISTIO_META_PILOTLIGHT_CERTIFICATE=true"},
	})
	w.Check(err)
	w.T.Cleanup(func() {
		s.Stop(lab.StopLimit)
		if w.T.Failed() {
			w.T.Logf("%s:\n%s", name, lab.Tail(s.Log()))
		}
	})
	w.Check(s.AwaitReady())
	return proxy
}

// Envoys that get their certificates from an agent of SPIRE, by the template of docs/certificates.md, speak mutual TLS under STRICT, and
// follow a rotation.
func TestCertificatesFromSPIRE(t *testing.T) {
	t.Parallel()
	template := lab.Code(t, "docs/certificates.md", "template")[0]
	w := newWorld(t)
	authority, err := lab.NewAuthority("spire")
	w.Check(err)
	stations, serial := map[string]*station{}, int64(0)
	rotate := func(name string) {
		serial++
		identity, err := authority.Issue("spiffe://cluster.local/ns/default/sa/"+name, serial)
		w.Check(err)
		stations[name].set(document(identity)...)
	}
	server, port, b := w.Address(), lab.Port(t), w.BackendAt("127.0.0.1", "app")
	w.Apply("PeerAuthentication default", "mtls: {mode: STRICT}",
		"ServiceEntry server", fmt.Sprintf("hosts: [server.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: [{number: 80, name: http, protocol: HTTP}]\n"+
			"endpoints: [{address: %s, ports: {http: %d}, serviceAccount: server, labels: {app: server}}]", server, port),
		"Sidecar server", fmt.Sprintf("workloadSelector: {labels: {app: server}}\ningress: [{port: {number: %d, name: http, protocol: HTTP}, bind: %s, defaultEndpoint: '127.0.0.1:%d'}]\negress: [{hosts: ['*/*']}]", port, server, b.Port),
		"DestinationRule server", "host: server.test\ntrafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}")
	proxies := map[string]int{}
	for name, ip := range map[string]string{"server": server, "client": w.Address()} {
		dir := lab.ShortDir(t)
		stations[name] = startStation(t, filepath.Join(dir, "agent.sock"))
		rotate(name)
		proxies[name] = w.spired(name, ip, dir, template)
	}
	reads := func() {
		t.Helper()
		w.Check(lab.Eventually(patience, func() error {
			body, err := lab.GetThrough(fmt.Sprintf("127.0.0.1:%d", proxies["client"]), "http://server.test/")
			if err == nil && !strings.Contains(body, "app") {
				err = fmt.Errorf("answered by %q", body)
			}
			return err
		}))
	}
	reads()
	at := net.JoinHostPort(server, fmt.Sprint(port))
	if body, err := lab.Get("http://" + at + "/"); err == nil {
		t.Errorf("plain text is answered by %q", body)
	}
	pair, err := authority.Issue("spiffe://cluster.local/ns/default/sa/probe", 99)
	w.Check(err)
	probe, err := pair.Pair()
	w.Check(err)
	for range 2 {
		rotate("client")
		rotate("server")
		want := serial
		w.Check(lab.Eventually(time.Minute, func() error { return lab.Presents(at, meshTLS([]tls.Certificate{probe}, "istio"), want) }))
		reads()
	}
}
