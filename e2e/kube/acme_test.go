//go:build kube

package kube

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// edge is replicas of discovery with certificates by ACME, and gateways of the ingress gateway's account.
type edge struct {
	*cluster
	hand  hand
	ca    *lab.Pebble
	files string // an empty directory of configuration
	flags []string
}

// newEdge makes what docs/kubernetes.md says, with Pebble in the place of the public issuer. log gets what the API server was asked.
func newEdge(t *testing.T) (e *edge, log string) {
	dir := t.TempDir()
	leadPodsToLoopback(t)
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	check(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	c := startCluster(t, "--audit-policy-file="+policy, "--audit-log-path="+log)
	e = &edge{cluster: c, hand: c.hand(), ca: lab.StartPebble(t, "127.0.0.1", 80, time.Hour), files: filepath.Join(dir, "none")}
	check(t, os.Mkdir(e.files, 0o755))
	e.hand.apply(istioDefinitions(t))
	c.shell("kubectl apply -k deploy/kubernetes")
	c.shell(lab.Command(t, "docs/kubernetes.md", "deploy/kubernetes/acme"))
	e.hand.inForce(e.hand.kustomized("deploy", "kubernetes").objects, nil)
	e.hand.inForce(e.hand.kustomized("deploy", "kubernetes", "acme").objects, nil)
	o, err := e.hand.resource(e.hand.parse("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: discovery, namespace: istio-system}")).Get(t.Context(), "discovery", metav1.GetOptions{})
	check(t, err)
	for _, arg := range (deployment{t, []*unstructured.Unstructured{o}}).argsOf("discovery") {
		name, value, _ := strings.Cut(arg, "=")
		if name == "--acmeIssuer" {
			value = e.ca.Issuer(value)
		}
		if strings.HasPrefix(name, "--acme") || slices.Contains([]string{"--registries", "--meshConfigMap", "--leaseNamespace"}, name) {
			e.flags = append(e.flags, name, value)
		}
	}
	if text := strings.Join(e.flags, " "); strings.Count(text, "--acme") != 3 {
		t.Fatalf("the page has discovery started with %s", text)
	}
	account := c.write("kubeconfig-account", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority: %s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: %s}}]
current-context: c
`, c.address, c.write("ca-of-server.pem", string(c.ca)), e.hand.token(system, "istio-pilot-service-account")))
	e.flags = append(e.flags, "--kubernetesConfig", "--kubeconfig", account, "--acmeInside", "--plaintextSecrets")
	return e, log
}

// replica starts discovery, until the test ends.
func (e *edge) replica() *lab.Discovery {
	e.t.Helper()
	d, err := lab.New(e.t.TempDir()).Discovery(e.files, e.flags...)
	check(e.t, err)
	e.t.Cleanup(func() {
		d.Stop(stopLimit)
		if e.t.Failed() {
			e.t.Logf("discovery:\n%s", tail(d.Log()))
		}
	})
	return d
}

// leads waits until one of the replicas leads.
func (e *edge) leads(replicas ...*lab.Discovery) {
	e.t.Helper()
	check(e.t, lab.Eventually(time.Minute, func() error {
		for _, d := range replicas {
			text, err := lab.Get("http://" + d.Monitoring + "/metrics")
			if err != nil {
				return err
			}
			if strings.Contains(text, "pilotlight_leading{lease=\"istio-system/pilotlight-discovery\"} 1") {
				return nil
			}
		}
		return errors.New("none of them leads")
	}))
}

// gateway starts an ingress gateway that is connected to a replica.
func (e *edge) gateway(t *testing.T, name string, at *lab.Discovery) *lab.Proxy {
	t.Helper()
	w := &lab.World{Lab: lab.New(t.TempDir()), T: t, Discovery: at}
	return w.RunEnvoy("router~127.0.0.1~"+name+"."+edges+"~"+edges+".svc.cluster.local", "", map[string]any{
		"NAMESPACE": edges, "LABELS": map[string]string{"istio": "ingressgateway"},
	})
}

// hosts applies a Gateway with a server for each.
func (e *edge) hosts(names ...string) {
	e.t.Helper()
	text := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: edge, namespace: " + edges + "}\nspec:\n  selector: {istio: ingressgateway}\n  servers:\n" +
		"  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ['*'], tls: {httpsRedirect: true}}\n"
	for _, name := range names {
		text += fmt.Sprintf("  - {port: {number: 443, name: %s, protocol: HTTPS}, hosts: [%s.test], tls: {mode: SIMPLE, credentialName: 'acme://letsencrypt'}}\n", name, name)
	}
	e.hand.apply(text)
}

// presents waits until the gateway presents Pebble's certificate of a host.
func (e *edge) presents(host string) {
	e.t.Helper()
	check(e.t, lab.Eventually(time.Minute, func() error {
		pool, err := e.ca.Root()
		if err != nil {
			return err
		}
		c, err := tls.Dial("tcp", "127.0.0.1:443", &tls.Config{ServerName: host, RootCAs: pool})
		if err != nil {
			return err
		}
		return c.Close()
	}))
}

func (e *edge) ordered(want int) {
	e.t.Helper()
	if orders, issued := e.ca.Orders(), e.ca.Issued(); orders != want || issued != want {
		e.t.Errorf("Pebble has had %d orders, and issued %d certificates; want %d", orders, issued, want)
	}
}

// record reads what is stored of a host.
func (e *edge) record(host string) (r acme.Record, err error) {
	set := acme.Set{Namespace: edges, Issuer: "letsencrypt", Hosts: []string{host}}
	o := e.hand.parse("apiVersion: v1\nkind: Secret\nmetadata: {namespace: istio-acme, name: acme-" + set.ID() + "}")
	found, err := e.hand.resource(o).Get(e.t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		return r, err
	}
	var data struct{ Data map[string][]byte }
	text, err := found.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &data)
	}
	if err == nil {
		err = json.Unmarshal(data.Data["set.json"], &r)
	}
	return r, err
}

// Two replicas of discovery order as one: for a gateway at the replica that does not lead; with the leader killed after it has written an order; after a restart of both, and
// while the API server is away, without a new order. They need each of the rights of deploy/kubernetes/acme, and no other one.
func TestACMEOfReplicas(t *testing.T) { lab.InNetworkNamespace(t, acmeOfReplicas) }

func acmeOfReplicas(t *testing.T) {
	e, log := newEdge(t)
	a := e.replica()
	e.leads(a)
	b := e.replica()
	t.Run("the leader is killed", func(t *testing.T) { // the gateway ends with it
		e.leaderIsKilled(a, b, e.gateway(t, "one", b))
	})

	// A record that nothing needs is removed.
	old := acme.Record{Namespace: edges, Issuer: "letsencrypt", Hosts: []string{"gone.test"}}
	text, err := json.Marshal(old)
	check(t, err)
	e.hand.apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {namespace: istio-acme, name: acme-%s, labels: {acme.pilotlight.io/of: acme}}\nstringData: {set.json: '%s'}", old.Set().ID(), text))
	check(t, lab.Eventually(time.Minute, func() error {
		if _, err := e.record("gone.test"); err == nil {
			return errors.New("the old record is there")
		}
		return nil
	}))

	b.Stop(stopLimit)
	check(t, a.Restart())
	check(t, b.Restart())
	e.leads(a, b)
	e.granted(log) // before the restart of the API server, which refuses everything for a moment
	e.stop()
	e.gateway(t, "two", b)
	e.presents("shop.test")
	e.presents("pay.test")
	e.start()
	e.leads(a, b)
	e.ordered(2)
}

// leaderIsKilled has a certificate issued for a gateway of the other replica, and a second one whose leader is killed after its order was written.
func (e *edge) leaderIsKilled(a, b *lab.Discovery, gateway *lab.Proxy) {
	e.t.Helper()
	e.hosts("shop")
	e.presents("shop.test")
	e.ordered(1)

	gateway.Signal(syscall.SIGSTOP) // before it has the answer, the issuer is not told to ask
	e.hosts("shop", "pay")
	check(e.t, lab.Eventually(time.Minute, func() error {
		r, err := e.record("pay.test")
		if err == nil && len(r.Questions) == 0 {
			err = fmt.Errorf("the order has no question yet: %+v", r)
		}
		return err
	}))
	a.Signal(syscall.SIGKILL)
	<-a.Done()
	if r, err := e.record("pay.test"); err != nil || r.Order == "" {
		e.t.Fatalf("the leader was killed too late: %+v, %v", r, err)
	}
	gateway.Signal(syscall.SIGCONT)
	e.leads(b)
	e.presents("pay.test")
	e.ordered(2)
}

// granted compares what discovery has asked for with its rights on Secrets of certificates.
func (e *edge) granted(log string) {
	e.t.Helper()
	const account = "istio-pilot-service-account"
	uses(e.t, log, account, e.hand.kustomized("deploy", "kubernetes", "acme").rights(e.t, account))
}
