package traffic

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A port without a protocol carries gRPC and HTTP/1.1, each as what it is, through the client's Envoy and the server's.
// Traffic to an address that a service has for itself is the service's, whatever name a request or a handshake has.
func TestAPortWithoutAProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server, vip, port := w.Address(), w.Address(), lab.Port(t)
	secure, secureVIP := w.tlsBackend(w.certificates(), "secure.test"), w.Address()
	w.anyHTTP(fmt.Sprintf("127.0.0.1:%d", port))
	w.Apply("ServiceEntry any", fmt.Sprintf("hosts: [any.test]\naddresses: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\n"+
		"ports: [{number: %d, name: any}]\nendpoints: [{address: %s}]", vip, port, server),
		"ServiceEntry secure", fmt.Sprintf("hosts: [secure.test]\naddresses: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\n"+
			"ports: [{number: 443, name: tls, protocol: TLS}]\nendpoints: [{address: %s, ports: {tls: %d}}]", secureVIP, secure.IP, secure.Port),
		"Sidecar server", "workloadSelector: {labels: {app: server}}\negress: [{hosts: [./nobody.test]}]") // binds no VIP
	sidecar := func(app, ip string) *lab.Proxy {
		return w.RunEnvoy("sidecar~"+ip+"~"+app+".default~default.svc.cluster.local", "", map[string]any{
			"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "LABELS": map[string]string{"app": app},
		})
	}
	inbound, outbound := sidecar("server", server), sidecar("client", w.Address())
	address := fmt.Sprintf("%s:%d", vip, port)

	client, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	w.Check(err)
	defer client.Close()
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := healthpb.NewHealthClient(client).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}))
	for _, host := range []string{"any.test", "any.test.", "other.test"} {
		if a := w.Await(lab.ClientTo(address, nil), "http://"+host+"/", lab.Status(200)); a.Body != "HTTP/1.1" {
			t.Errorf("a client of HTTP/1.1 is answered by a server that was spoken to in %s", a.Body)
		}
	}
	w.Await(lab.ClientTo(secureVIP+":443", &tls.Config{ServerName: "other.test", InsecureSkipVerify: true}), "https://other.test/", lab.From("secure.test"))
	for direction, p := range map[string]*lab.Proxy{"outbound": outbound, "inbound": inbound} {
		for _, version := range []string{"http1", "http2"} {
			if n := p.Stat(fmt.Sprintf(`^cluster\.%s\|%d\|.*upstream_cx_%s_total$`, direction, port, version)); n == 0 {
				t.Errorf("%s: Envoy counts no connection of %s", direction, version)
			}
		}
	}
	w.replay(outbound)
}

// Bytes that are not HTTP pass a port without a protocol as they are, through the client's Envoy and the server's: where
// the proxy binds the ports of services, and to the defaultEndpoint of a Sidecar's own port.
func TestBytesOnAPortWithoutAProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	port, outside, inside := lab.Port(t), lab.Port(t), lab.Port(t)
	echo(t, fmt.Sprintf("127.0.0.1:%d", port))
	echo(t, fmt.Sprintf("127.0.0.1:%d", inside))
	plain, declared, vip, declaredVIP := w.Address(), w.Address(), w.Address(), w.Address()
	for i, s := range []struct{ name, vip, server string }{{"plain", vip, plain}, {"declared", declaredVIP, declared}} {
		number := []int{port, outside}[i]
		w.Apply("ServiceEntry "+s.name, fmt.Sprintf("hosts: [%s.test]\naddresses: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\n"+
			"ports: [{number: %d, name: any}]\nendpoints: [{address: %s}]", s.name, s.vip, number, s.server))
	}
	w.Apply("Sidecar plain", "workloadSelector: {labels: {app: plain}}\negress: [{hosts: [./nobody.test]}]", // binds no VIP
		"Sidecar declared", fmt.Sprintf("workloadSelector: {labels: {app: declared}}\negress: [{hosts: [./nobody.test]}]\n"+
			"ingress: [{port: {number: %d, name: any}, captureMode: NONE, defaultEndpoint: \"127.0.0.1:%d\"}]", outside, inside))
	proxies := map[string]*lab.Proxy{}
	for app, ip := range map[string]string{"plain": plain, "declared": declared, "client": w.Address()} {
		proxies[app] = w.RunEnvoy("sidecar~"+ip+"~"+app+".default~default.svc.cluster.local", "", map[string]any{
			"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "LABELS": map[string]string{"app": app},
		})
	}
	for _, address := range []string{
		fmt.Sprintf("%s:%d", plain, port), fmt.Sprintf("%s:%d", vip, port), // through one Envoy, and through two
		fmt.Sprintf("%s:%d", declared, outside), fmt.Sprintf("%s:%d", declaredVIP, outside),
	} {
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			c, err := net.DialTimeout("tcp", address, lab.StopLimit)
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(lab.StopLimit))
			const said = "\x00\x01not HTTP at all\n"
			if _, err := io.WriteString(c, said); err != nil {
				return err
			}
			got := make([]byte, len(said))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != said {
				return fmt.Errorf("%s answers %q: %v", address, got, err)
			}
			return nil
		}))
	}
	w.replay(proxies["client"])
}

// echo returns to each client what it sends, until the test ends.
func echo(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go lab.AnswerEach(l, lab.SayBack)
}

// anyHTTP serves gRPC's health over HTTP/2, and tells every other request what it was asked in.
func (w *world) anyHTTP(address string) {
	w.T.Helper()
	l, err := net.Listen("tcp", address)
	w.Check(err)
	program := grpc.NewServer()
	healthpb.RegisterHealthServer(program, health.NewServer())
	server := &http.Server{Protocols: &http.Protocols{}, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			program.ServeHTTP(out, r)
			return
		}
		io.WriteString(out, r.Proto)
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(l)
	w.T.Cleanup(func() { server.Close() })
}
