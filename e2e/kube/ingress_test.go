//go:build kube

package kube

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// ingressRights are what Ingresses need beside rights: Secrets of the namespaces whose Ingresses have a certificate.
var ingressRights = allow("", "ingress",
	may("list, watch", "networking.k8s.io", "ingresses, ingressclasses"),
	may("list, watch", "", "secrets"),
	may("patch", "networking.k8s.io", "ingresses/status")) + `
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: ours}
spec: {controller: pilotlight.io/ingress-controller}
---
apiVersion: v1
kind: Namespace
metadata: {name: evil}
---
apiVersion: v1
kind: Namespace
metadata: {name: istio-system}`

// inNamespace is a Service of one Pod, which answers with its name.
func (w *world) inNamespace(namespace, name, ip string) {
	w.t.Helper()
	port := backend(w.t, name, ip)
	w.hand.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {ports: [{name: http, port: 80}, {name: http-admin, port: 9000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: %[4]d, protocol: TCP}, {name: http-admin, port: %[4]d, protocol: TCP}]
endpoints: [{addresses: [%[3]s]}]`, namespace, name, ip, port))
}

func ingressOf(namespace, name, class, spec string) string {
	return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s, namespace: %s}\nspec:\n  ingressClassName: %s\n%s", name, namespace, class, spec)
}

func tlsSecret(t *testing.T, authority *lab.Authority, namespace, name, host string, serial int64) string {
	t.Helper()
	id, err := authority.Issue(host, serial)
	check(t, err)
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}",
		name, namespace, base64.StdEncoding.EncodeToString(id.Chain), base64.StdEncoding.EncodeToString(id.Key))
}

// gateway starts an ingress proxy of a service account, and returns its Envoy's address.
func (w *world) gateway(authority *lab.Authority, account, ip, secure string) *lab.Sidecar {
	w.t.Helper()
	certs := w.t.TempDir()
	id, err := authority.Issue("spiffe://cluster.local/ns/istio-system/sa/"+account, 3)
	check(w.t, err)
	check(w.t, id.Mount(certs))
	s, err := w.lab.Sidecar(lab.Workload{
		Role: "ingress", Name: account, App: account, IP: ip, Discovery: secure,
		Flags: []string{
			"--controlPlaneAuthPolicy", "MUTUAL_TLS", "--certDir", certs, "--pilotIdentity", "spiffe://cluster.local/ns/istio-system/sa/discovery",
			"--domain", "istio-system.svc.cluster.local", "--id", account + ".istio-system",
		},
		Env: []string{"POD_NAMESPACE=istio-system", `ISTIO_METAJSON_LABELS={"istio":"ingressgateway"}`},
	})
	check(w.t, err)
	w.t.Cleanup(func() {
		s.Stop(stopLimit)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", account, tail(s.Log()))
		}
	})
	check(w.t, s.AwaitReady())
	return s
}

// Ingresses of the API server are served by a real Envoy: hosts, paths, TLS. A tenant gets nothing of another's host, and a
// proxy of another service account gets no key.
func TestIngressOfACluster(t *testing.T) { lab.InNetworkNamespace(t, ingressOfACluster) }

func ingressOfACluster(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(ingressRights)
	for i, name := range []string{"app", "long", "exact", "wild", "rest"} {
		w.inNamespace("default", name, fmt.Sprintf("10.1.0.2%d", i))
	}
	w.inNamespace("evil", "thief", "10.1.0.30")
	mesh, err := lab.NewAuthority("mesh")
	check(t, err)
	public, err := lab.NewAuthority("public")
	check(t, err)
	own := t.TempDir()
	id, err := mesh.Issue("spiffe://cluster.local/ns/istio-system/sa/discovery", 2)
	check(t, err)
	check(t, id.Mount(own))
	w.hand.apply(tlsSecret(t, public, "default", "shop", "shop.test", 11))
	w.hand.apply(ingressOf("default", "shop", "pilotlight", `
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: app, port: {name: http-admin}}}}
      - {path: /foo, pathType: Prefix, backend: {service: {name: long, port: {number: 80}}}}
      - {path: /foo, pathType: Exact, backend: {service: {name: exact, port: {number: 80}}}}
      - {path: /gone, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}
  - host: "*.shop.test"
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: wild, port: {number: 80}}}}]}
  tls: [{hosts: [shop.test], secretName: shop}, {hosts: [late.shop.test], secretName: late}]`))
	secure := "127.0.0.1:" + port(t)
	plain, encrypted, further := port(t), port(t), port(t)
	w.serve("--ingressClass", "pilotlight", "--ingressPorts", plain+","+encrypted, "--gatewaySecrets", "istio-system/ingressgateway",
		"--secureGRPCAddr", secure, "--tlsCertFile", filepath.Join(own, "cert-chain.pem"), "--tlsKeyFile", filepath.Join(own, "key.pem"),
		"--caCertFile", filepath.Join(own, "root-cert.pem"))
	proxy := w.gateway(mesh, "ingressgateway", "10.1.0.40", secure)

	client := lab.ClientTo("10.1.0.40:"+plain, nil)
	trusting := lab.ClientTo("10.1.0.40:"+encrypted, &tls.Config{RootCAs: public.Pool()})
	ask := func(client *http.Client, url, want string) {
		t.Helper()
		check(t, lab.Eventually(time.Minute, func() error {
			a, err := lab.Exchange(client, http.MethodGet, url)
			if got := a.Body; err == nil && got != want && fmt.Sprint(a.Status) != want {
				err = fmt.Errorf("%s is answered by %q with %d, want %s", url, got, a.Status, want)
			}
			return err
		}))
	}
	for path, want := range map[string]string{
		"shop.test/": "app", "shop.test/foobar": "app", "shop.test/foo": "exact", "shop.test/foo/": "long", "shop.test/foo/bar?a=b": "long", "shop.test/gone": "503",
		"a.shop.test/foo": "wild", "A.Shop.Test:" + plain + "/": "wild", "a.b.shop.test/": "404", "other.test/": "404",
	} {
		ask(client, "http://"+path, want)
	}
	ask(trusting, "https://shop.test/foo/x", "long")
	w.page("/ready?verbose", "Ingress/default/shop: spec.rules[0].http.paths[3].backend.service.name is \"gone\", which is no Service of namespace default, answered with 503")
	w.page("/ready?verbose", "names Secret default/late, which is not there")

	// The missing Secret comes, and one is replaced.
	w.hand.apply(tlsSecret(t, public, "default", "late", "late.shop.test", 12))
	ask(trusting, "https://late.shop.test/", "wild")
	w.hand.apply(tlsSecret(t, public, "default", "shop", "shop.test", 21))
	check(t, lab.Eventually(time.Minute, func() error {
		return lab.Presents("10.1.0.40:"+encrypted, &tls.Config{RootCAs: public.Pool(), ServerName: "shop.test"}, 21)
	}))

	// A tenant takes a path, a name below the wildcard and the certificate, and gets none of them. Its own resources
	// are served.
	w.hand.apply(ingressOf("evil", "thief", "ours", `
  defaultBackend: {service: {name: thief, port: {number: 80}}}
  rules:
  - {host: shop.test, http: {paths: [{path: /foo/login, pathType: Exact, backend: {service: {name: thief, port: {number: 80}}}}]}}
  - {host: b.shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: thief, port: {number: 80}}}}]}}
  - {host: evil.test, http: {paths: [{path: /x, pathType: Prefix, backend: {service: {name: thief, port: {number: 80}}}}]}}
  tls: [{hosts: [shop.test, evil.test], secretName: shop}]`))
	ask(client, "http://evil.test/x", "thief")
	ask(client, "http://evil.test/y", "thief")
	ask(client, "http://shop.test/foo/login", "long")
	ask(client, "http://b.shop.test/", "wild")
	ask(client, "http://other.test/", "404")
	ask(trusting, "https://shop.test/foo/login", "long")
	w.page("/ready?verbose", `Ingress/evil/thief: spec.rules[0].host is "shop.test", which belongs to namespace default`)
	w.page("/ready?verbose", `names Secret evil/shop, which is not there`)

	// A Gateway of the proxies' namespace names a Secret there, with Istio's keys.
	issued, err := public.Issue("gateway.test", 31)
	check(t, err)
	encode := base64.StdEncoding.EncodeToString
	w.hand.apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: gw, namespace: istio-system}\ndata: {cert: %s, key: %s}", encode(issued.Chain), encode(issued.Key)))
	check(t, os.WriteFile(filepath.Join(w.lab.Dir, "none", "gateway.yaml"), []byte(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %s, name: https, protocol: HTTPS}, hosts: [gateway.test], tls: {mode: SIMPLE, credentialName: gw}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: gw, namespace: istio-system}
spec: {hosts: [gateway.test], gateways: [gw], http: [{route: [{destination: {host: app.default.svc.cluster.local, port: {number: 80}}}]}]}
`, further)), 0o600))
	ask(lab.ClientTo("10.1.0.40:"+further, &tls.Config{RootCAs: public.Pool()}), "https://gateway.test/", "app")

	// It is no longer ours.
	w.hand.apply(ingressOf("default", "rest", "ours", "  defaultBackend: {service: {name: rest, port: {number: 80}}}"))
	ask(client, "http://other.test/", "rest")
	w.hand.apply(strings.Replace(ingressOf("default", "rest", "ours", "  defaultBackend: {service: {name: rest, port: {number: 80}}}"), "ours", "nginx", 1))
	ask(client, "http://other.test/", "404")

	// Another account of the namespace has the same labels, and no key. Both would listen at every address, so the first one ends.
	proxy.Stop(stopLimit)
	w.gateway(mesh, "stranger", "10.1.0.41", secure)
	ask(lab.ClientTo("10.1.0.41:"+plain, nil), "http://shop.test/foo", "exact")
	check(t, lab.Eventually(time.Minute, func() error {
		if log := w.discovery.Log(); !strings.Contains(log, "kubernetes-ingress://default/shop") || strings.Count(log, "stranger") == 0 {
			return fmt.Errorf("discovery does not name the key that it withholds:\n%s", tail(log))
		}
		return nil
	}))
	for host, at := range map[string]string{"shop.test": encrypted, "late.shop.test": encrypted, "gateway.test": further} {
		conn, err := tls.Dial("tcp", "10.1.0.41:"+at, &tls.Config{RootCAs: public.Pool(), ServerName: host})
		if err == nil {
			conn.Close()
			t.Errorf("the stranger serves the certificate of %s", host)
		}
	}
	if _, err := os.Stat(w.discovery.LogFile); err != nil || strings.Contains(w.discovery.Log(), "PRIVATE KEY") {
		t.Error("the log holds a key")
	}
}
