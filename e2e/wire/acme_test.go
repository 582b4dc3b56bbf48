//go:build wire

package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// acmeWorld is a gateway whose certificate comes from Pebble.
type acmeWorld struct {
	*lab.World
	ca    *lab.Pebble
	envoy *lab.Proxy
	bind  string
	state string
}

const certPort = 18443

// newACME starts discovery, Pebble and a gateway, and the objects that lead to a backend. Port 80 of the gateway's Service leads to
// a port that anybody may open.
func newACME(t *testing.T, life time.Duration, plain, hosts string) *acmeWorld {
	t.Helper()
	return newACMEAt(t, filepath.Join(t.TempDir(), "state"), life, plain, hosts)
}

// newACMEAt does so with a directory of state.
func newACMEAt(t *testing.T, state string, life time.Duration, plain, hosts string) *acmeWorld {
	t.Helper()
	bind := lab.Addresses() + "9"
	ca := lab.StartPebble(t, bind, lab.Port(t), life)
	flags := append([]string{"--stateDir", state, "--plaintextSecrets", "--acmeInside"}, issuerFlags(t, ca)...)
	w := &acmeWorld{World: lab.NewWorld(t, crd.Sound, flags...), ca: ca, bind: bind, state: state}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("discovery:\n%s\npebble:\n%s", lab.Tail(w.Discovery.Log()), lab.Tail(ca.Log()))
		}
	})
	app := w.Backend("app")
	w.Service("app.test", app)
	w.Check(os.WriteFile(filepath.Join(w.Config, "service.yaml"), []byte(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: gw, namespace: default},
		spec: {clusterIP: 10.9.9.9, selector: {gateway: gw}, ports: [{name: http, port: 80, targetPort: %d}]}}`, ca.Port)), 0o644))
	w.gateway(plain, hosts)
	w.Apply("VirtualService app", "hosts: ["+hosts+"]\ngateways: [gw]\nhttp: [{route: [{destination: {host: app.test}}]}]")
	w.envoy = w.GatewayEnvoy("gw")
	return w
}

// gateway applies the Gateway; plain is its server at port 80, "" for none.
func (w *acmeWorld) gateway(plain, hosts string) {
	w.T.Helper()
	servers := fmt.Sprintf("- {port: {number: %d, name: https, protocol: HTTPS}, bind: %s, hosts: [%s], tls: {mode: SIMPLE, credentialName: 'acme://letsencrypt'}}\n", certPort, w.bind, hosts)
	if plain != "" {
		servers += fmt.Sprintf("- {port: {number: 80, name: http, protocol: HTTP}, bind: %s, hosts: ['*']%s}\n", w.bind, plain)
	}
	w.Apply("Gateway gw", "selector: {gateway: gw}\nservers:\n"+servers)
}

// leaf returns the certificate that the gateway presents.
func (w *acmeWorld) leaf(host string) (*x509.Certificate, error) {
	pool, err := w.ca.Root()
	if err != nil {
		return nil, err
	}
	c, err := tls.Dial("tcp", fmt.Sprintf("%s:%d", w.bind, certPort), &tls.Config{ServerName: host, RootCAs: pool})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// A host of a Gateway gets its certificate, though port 80 redirects to HTTPS, and requests arrive by it; it is renewed before it
// ends, and no request fails.
func TestACMEIssuesAndRenews(t *testing.T) {
	t.Parallel()
	w := newACME(t, 45*time.Second, ", tls: {httpsRedirect: true}", "shop.test, pay.test")
	var first *x509.Certificate
	w.Check(lab.Eventually(lab.StopLimit, func() (err error) { first, err = w.leaf("shop.test"); return err }))
	pool, err := w.ca.Root()
	w.Check(err)
	client := lab.ClientTo(fmt.Sprintf("%s:%d", w.bind, certPort), &tls.Config{RootCAs: pool})
	w.Await(client, "https://pay.test/", lab.From("app"))
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: lab.ClientTo(fmt.Sprintf("%s:%d", w.bind, w.ca.Port), nil).Transport}
	w.Await(plain, "http://shop.test/any", lab.Status(http.StatusMovedPermanently))

	w.Check(lab.Eventually(lab.StopLimit, func() error {
		text, err := lab.Get("http://" + w.Discovery.Monitoring + "/metrics")
		if err == nil && !strings.Contains(text, `pilotlight_acme_certificates{state="held"} 1`) {
			err = fmt.Errorf("the metrics do not count the certificate:\n%s", text)
		}
		return err
	}))

	w.Check(lab.Eventually(time.Minute, func() error {
		answer, err := lab.Exchange(client, http.MethodGet, "https://shop.test/")
		if err != nil {
			t.Errorf("a request failed: %v", err)
		} else if err := lab.From("app")(answer); err != nil {
			t.Error(err)
		}
		now, err := w.leaf("shop.test")
		switch {
		case err != nil:
			t.Errorf("a handshake failed: %v", err)
		case now.SerialNumber.Cmp(first.SerialNumber) == 0:
			return fmt.Errorf("the certificate is still the one until %s", first.NotAfter)
		case !first.NotAfter.After(time.Now()):
			t.Errorf("it was renewed after its end at %s", first.NotAfter)
		}
		return nil
	}))
	if log := w.Discovery.Log(); strings.Contains(log, "certificate not issued") {
		t.Errorf("a try failed:\n%s", log)
	}
}

// A gateway that serves no port 80 costs the issuer nothing, and a note of the Gateway says why; with that port it gets the certificate.
func TestACMEWithoutPort80(t *testing.T) {
	t.Parallel()
	w := newACME(t, time.Hour, "", "shop.test")
	w.noted("acme-no-http")
	if log := w.ca.Log(); strings.Contains(log, "order-plz") {
		t.Errorf("an order was made:\n%s", log)
	}
	w.gateway(" ", "shop.test")
	w.Check(lab.Eventually(30*time.Second, func() error { _, err := w.leaf("shop.test"); return err }))
}

// noted waits for a note of a code at the Gateway.
func (w *acmeWorld) noted(code string) {
	w.T.Helper()
	w.Check(lab.Eventually(30*time.Second, func() error {
		text, err := lab.Get("http://" + w.Discovery.HTTP + "/debug/notes")
		if err == nil && (!strings.Contains(text, code) || !strings.Contains(text, "gateway-gw.yaml")) {
			err = fmt.Errorf("no note %s in %s", code, text)
		}
		return err
	}))
}

// An issuer that refuses is asked again later, in its own words, also by a discovery that was killed meanwhile.
func TestACMERefused(t *testing.T) {
	t.Parallel()
	w := newACME(t, time.Hour, " ", "blocked.test")
	w.noted("acme-refused")
	asked := strings.Count(w.ca.Log(), "POST /order-plz")
	if asked == 0 {
		t.Fatal("Pebble was not asked for an order")
	}
	w.Discovery.Signal(syscall.SIGKILL)
	<-w.Discovery.Done()
	w.Check(w.Discovery.Restart())
	w.noted("acme-refused")
	if now := strings.Count(w.ca.Log(), "POST /order-plz"); now != asked {
		t.Errorf("the restart asked again: %d times, %d before it", now, asked)
	}
}

// Discovery is killed at each step of its way to a certificate; it goes on with the order that it has made.
func TestACMEKilledAtEachStep(t *testing.T) {
	t.Parallel()
	w := newACME(t, time.Hour, " ", "shop.test")
	for _, step := range []string{"POST /authZ/", "POST /chalZ/", "POST /finalize-order/", "POST /certZ/"} {
		w.Check(lab.Eventually(30*time.Second, func() error {
			if !strings.Contains(w.ca.Log(), step) {
				return fmt.Errorf("Pebble has not had %s", step)
			}
			return nil
		}))
		w.Discovery.Signal(syscall.SIGKILL)
		<-w.Discovery.Done()
		w.Check(w.Discovery.Restart())
	}
	w.Check(lab.Eventually(30*time.Second, func() error { _, err := w.leaf("shop.test"); return err }))
	if orders, issued := w.ca.Orders(), w.ca.Issued(); orders != 1 || issued != 1 {
		t.Errorf("Pebble took %d orders and issued %d certificates, want one of each", orders, issued)
	}
}

// An issuer that is silent or away costs nothing that is served: a restarted discovery has the last certificate.
func TestACMEAway(t *testing.T) {
	t.Parallel()
	w := newACME(t, time.Hour, " ", "shop.test")
	var first *x509.Certificate
	w.Check(lab.Eventually(30*time.Second, func() (err error) { first, err = w.leaf("shop.test"); return err }))
	pool, err := w.ca.Root()
	w.Check(err)
	w.ca.Signal(syscall.SIGSTOP)
	w.gateway(" ", "shop.test, more.test") // what is held is served until the new one is there
	w.Discovery.Signal(syscall.SIGKILL)
	<-w.Discovery.Done()
	w.Check(w.Discovery.Restart())
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		return lab.Presents(fmt.Sprintf("%s:%d", w.bind, certPort), &tls.Config{RootCAs: pool, ServerName: "shop.test"}, first.SerialNumber.Int64())
	}))
	w.ca.Signal(syscall.SIGCONT)
}

// The disk of the state is full when a certificate arrives: gateways get it all the same, after a restart of discovery too, for its order was kept. As long as it is full
// nothing is ordered, the last certificate stays, and readiness, log and a note of the Gateway say why. With space the next one is ordered, once.
func TestACMEOnAFullDisk(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		state := t.TempDir()
		lab.MountTmpfs(t, state, "size=256k,mode=700", 0)
		ballast := filepath.Join(state, "ballast")
		w := newACMEAt(t, state, time.Hour, " ", "shop.test")
		serves := func(host string, within time.Duration) {
			t.Helper()
			w.Check(lab.Eventually(within, func() error { _, err := w.leaf(host); return err }))
		}
		serves("shop.test", 30*time.Second)
		w.Check(lab.Eventually(30*time.Second, func() error { return w.ready("") }))

		w.envoy.Signal(syscall.SIGSTOP) // before it has the answers, the issuer is not told to ask
		w.gateway(" ", "shop.test, more.test")
		w.Check(lab.Eventually(30*time.Second, func() error { return w.asked("more.test") }))
		lab.Fill(t, ballast)
		w.envoy.Signal(syscall.SIGCONT)
		serves("more.test", 30*time.Second)
		const full = "no space left on device"
		w.Check(lab.Eventually(30*time.Second, func() error { return w.ready(full) }))
		w.Check(w.Discovery.AwaitLog("state of a certificate is not kept"))
		w.Discovery.Signal(syscall.SIGKILL)
		<-w.Discovery.Done()
		w.Check(w.Discovery.Restart())
		w.Check(lab.Eventually(30*time.Second, func() error { return w.ready(full) }))
		serves("more.test", 30*time.Second)

		w.gateway(" ", "shop.test, more.test, third.test")
		w.noted("once that is mended")
		serves("more.test", time.Second)
		if orders, issued := w.ca.Orders(), w.ca.Issued(); orders != 2 || issued != 2 {
			t.Errorf("%d orders and %d certificates on a full disk, want 2 and 2", orders, issued)
		}
		w.Check(os.Remove(ballast))
		serves("third.test", 2*time.Minute)
		w.Check(lab.Eventually(30*time.Second, func() error { return w.ready("") }))
		if orders, issued := w.ca.Orders(), w.ca.Issued(); orders != 3 || issued != 3 {
			t.Errorf("%d orders and %d certificates in the end, want 3 and 3", orders, issued)
		}
	})
}

// asked wants an order to be kept that asks about a host.
func (w *acmeWorld) asked(host string) error {
	files, err := filepath.Glob(filepath.Join(w.state, "acme", "set-*.json"))
	for _, file := range files {
		var r acme.Record
		text, failed := os.ReadFile(file)
		if failed == nil {
			failed = json.Unmarshal(text, &r)
		}
		if slices.ContainsFunc(r.Questions, func(q acme.Question) bool { return q.Host == host }) {
			return nil
		}
		err = errors.Join(err, failed)
	}
	return errors.Join(err, fmt.Errorf("no order of %s asks about %s", files, host))
}

// ready wants readiness to say something of certificates of issuers, nothing for "".
func (w *acmeWorld) ready(want string) error {
	text, err := lab.Get("http://" + w.Discovery.HTTP + "/ready?verbose")
	for line := range strings.Lines(text) {
		if is := strings.Contains(line, "certificate"); is && want != "" && strings.Contains(line, want) {
			return nil
		} else if is && want == "" {
			return fmt.Errorf("readiness says %s", line)
		}
	}
	if err == nil && want != "" {
		err = fmt.Errorf("readiness does not say %q of a certificate: %s", want, text)
	}
	return err
}

// A program that calls itself a gateway in plain text, and never acknowledges what it is sent, delays no certificate.
func TestACMEWithAStranger(t *testing.T) {
	t.Parallel()
	w := newACME(t, time.Hour, " ", "shop.test")
	w.Check(lab.Eventually(30*time.Second, func() error { _, err := w.leaf("shop.test"); return err }))
	connection, err := grpc.NewClient("passthrough:"+w.Discovery.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { // not 127.0.0.1, which has secrets in plain text here
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(ctx, "tcp", address)
		}))
	w.Check(err)
	defer connection.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(t.Context())
	w.Check(err)
	labels, err := structpb.NewStruct(map[string]any{"LABELS": map[string]any{"gateway": "gw"}})
	w.Check(err)
	w.Check(stream.Send(&discoveryv3.DiscoveryRequest{
		Node:    &corev3.Node{Id: "router~10.77.0.66~fake.default~default.svc.cluster.local", Metadata: labels},
		TypeUrl: "type.googleapis.com/envoy.config.listener.v3.Listener",
	}))
	_, err = stream.Recv()
	w.Check(err)
	w.gateway(" ", "shop.test, more.test")
	w.Check(lab.Eventually(30*time.Second, func() error { _, err := w.leaf("more.test"); return err }))
}
