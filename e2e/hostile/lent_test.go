package hostile

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A tenant's route through the shared gateway to discovery's secure port leads strangers there, and the gateway's certificate does not
// count on such a connection, whatever TLS settings the tenant writes. The gateway's own agent is not disturbed.
func TestASharedGatewayLendsNoIdentity(t *testing.T) {
	t.Parallel()
	secure, ca := fmt.Sprintf("127.0.0.77:%d", lab.Port(t)), filepath.Join(t.TempDir(), "ca")
	var joins []string
	s := startWith(t, func(w *lab.Workload, world *lab.World) {
		token := filepath.Join(t.TempDir(), "token")
		made, err := exec.CommandContext(t.Context(), filepath.Join(world.Bin, "discovery"), "token", "create", "--namespace", "istio-ingress",
			"--service-account", "ingressgateway", "--caDir", ca).Output()
		world.Check(err)
		world.Check(os.WriteFile(token, made, 0o600))
		w.Discovery = secure
		joins = []string{"--caAddress", secure, "--caRoots", filepath.Join(ca, "root-cert.pem"), "--caToken", token}
		w.Flags = append(w.Flags, joins...)
	}, "--ca", "--caDir", ca, "--secureGRPCAddr", secure)
	// An Envoy that connects by itself, with a certificate that its agent has requested, is admitted.
	proxy := lab.Port(t)
	direct, err := s.Sidecar(lab.Workload{
		Name: "direct", App: "direct", Version: "v1", IP: s.Address(), ProxyPort: proxy, Discovery: secure,
		Flags: append(joins, "--id", "direct.istio-ingress", "--domain", "istio-ingress.svc.cluster.local", "--lastGood", "off"),
		Env:   []string{"POD_NAMESPACE=istio-ingress", "ISTIO_META_NAMESPACE=istio-ingress"},
	})
	s.Check(err)
	t.Cleanup(func() { direct.Stop(lab.StopLimit) })
	s.Check(direct.AwaitReady())
	files := filepath.Join(s.agent.ConfigPath, "certificates")
	roots := filepath.Join(ca, "root-cert.pem")
	_, port, err := net.SplitHostPort(secure)
	s.Check(err)

	const mutual = `{mode: MUTUAL, clientCertificate: %[1]s/cert-chain.pem, privateKey: %[1]s/key.pem, caCertificates: %[2]s, subjectAltNames: [localhost]}`
	hidden := forward(t, secure) // as address translation that discovery does not know
	bare := "127.0.0.77:" + port
	kinds := []struct{ name, protocol, labels, tls, at string }{
		{"grpc-mutual", "GRPC", "{}", "{mode: ISTIO_MUTUAL}", hidden},
		{"grpc-label", "GRPC", "{security.istio.io/tlsMode: istio}", "", hidden},
		{"http-label", "HTTP", "{security.istio.io/tlsMode: istio}", "", hidden},
		{"grpc-files", "GRPC", "{}", fmt.Sprintf(mutual, files, roots), hidden},
		{"http-files", "HTTP", "{}", fmt.Sprintf(mutual, files, roots), hidden},
		{"grpc-direct", "GRPC", "{}", "{mode: ISTIO_MUTUAL}", bare},
		{"label-direct", "HTTP", "{security.istio.io/tlsMode: istio}", "", bare},
		{"files-direct", "HTTP", "{}", fmt.Sprintf(mutual, files, roots), bare},
		{"simple", "HTTP", "{}", fmt.Sprintf("{mode: SIMPLE, caCertificates: %s, subjectAltNames: [localhost]}", roots), bare}, // shows that the way itself is open
	}
	var text strings.Builder
	for _, k := range kinds {
		host, number, _ := strings.Cut(k.at, ":")
		location := "EXTERNAL"
		if k.labels != "{}" { // by automatic mutual TLS, which leads to services of the mesh only
			location = "INTERNAL"
		}
		fmt.Fprintf(&text, `
ServiceEntry %[1]s
  hosts: [%[1]s.test]
  resolution: STATIC
  location: MESH_%[6]s
  ports: [{number: 15012, name: p, protocol: %[2]s}]
  endpoints: [{address: %[5]s, ports: {p: %[3]s}, labels: %[4]s}]
VirtualService %[1]s
  hosts: [%[1]s.test]
  gateways: [istio-ingress/gw]
  http: [{route: [{destination: {host: %[1]s.test, port: {number: 15012}}}]}]`, k.name, k.protocol, number, k.labels, host, location)
		if k.tls != "" {
			fmt.Fprintf(&text, "\nDestinationRule %[1]s\n  host: %[1]s.test\n  trafficPolicy: {tls: %[2]s}", k.name, k.tls)
		}
	}
	s.write("evil", "evil", text.String())

	csr := request(t)
	body, err := json.Marshal(map[string]string{"csr": csr})
	s.Check(err)
	post := func(host string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+".test/v1/certificates", bytes.NewReader(body))
		s.Check(err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := s.client().Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		var out bytes.Buffer
		_, _ = out.ReadFrom(answer.Body)
		return answer.StatusCode, out.String()
	}
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		if code, said := post("simple"); code != http.StatusUnauthorized {
			return fmt.Errorf("without a certificate: %d %s, want discovery's 401", code, said)
		}
		return nil
	}))
	for _, k := range kinds[:len(kinds)-1] {
		t.Run(k.name, func(t *testing.T) {
			if k.protocol == "HTTP" {
				if code, said := post(k.name); code != http.StatusServiceUnavailable || strings.Contains(said, "BEGIN CERTIFICATE") {
					t.Errorf("%d %s, want 503 of the gateway", code, said)
				}
				return
			}
			conn, err := grpc.NewClient(fmt.Sprintf("passthrough:127.0.0.1:%d", s.port), grpc.WithAuthority(k.name+".test"), grpc.WithTransportCredentials(insecure.NewCredentials()))
			s.Check(err)
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), lab.StopLimit)
			defer cancel()
			answer, err := security.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, &security.IstioCertificateRequest{Csr: csr}, grpc.WaitForReady(true))
			if status.Code(err) != codes.Unavailable || len(answer.GetCertChain()) > 0 {
				t.Errorf("%v, %d certificates, want Unavailable of the gateway", err, len(answer.GetCertChain()))
			}
		})
	}
	clusters, err := lab.Get("http://" + s.agent.Admin + "/clusters?filter=direct.test")
	s.Check(err)
	if strings.Contains(clusters, bare) || !strings.Contains(clusters, "direct.test") {
		t.Errorf("the gateway has an endpoint at discovery's address, or no cluster:\n%s", clusters)
	}
	if log := s.Discovery.Log(); !strings.Contains(log, "connection refused at the secure port") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	s.write("own2", "istio-ingress", "VirtualService later\n  hosts: [later.test]\n  gateways: [istio-ingress/gw, mesh]\n  http: [{directResponse: {status: 298}}]")
	s.Await(s.client(), "http://later.test/", lab.Status(298)) // the agent's own stream goes on
	s.Await(lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", proxy), nil), "http://later.test/", lab.Status(298))
}

// request returns a CSR of a key of the thief's own.
func request(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// forward returns an address at which connections go on to another one.
func forward(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.76:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}
