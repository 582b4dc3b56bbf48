package traffic

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Ingresses of a directory are served without a cluster: hosts, paths, TLS with keys of --secretsDir. A younger Ingress of
// another namespace gets nothing of a host, and one with a fault costs the others nothing.
func TestIngressOfADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := func() string {
		p, err := lab.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(p)
	}
	plain, encrypted := port(), port()
	w := newWorld(t, "--ingressClass", "pilotlight", "--ingressIdentity", "default/default", "--ingressSelector", "gateway=gw", "--ingressPorts", plain+","+encrypted,
		"--secretsDir", dir, "--plaintextSecrets")
	write := func(name, text string) { w.Check(os.WriteFile(filepath.Join(w.Config, name), []byte(text), 0o644)) }
	app, long, thief := w.Backend("app"), w.Backend("long"), w.Backend("thief")
	var services []string
	for _, b := range []struct {
		namespace, name string
		at              *lab.Backend
	}{{"default", "app", app}, {"default", "long", long}, {"evil", "thief", thief}} {
		services = append(services, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %[2]s, namespace: %[1]s}, spec: {ports: [{name: http, port: 80}]}}\n---\n"+
			"{apiVersion: v1, kind: Endpoints, metadata: {name: %[2]s, namespace: %[1]s}, subsets: [{addresses: [{ip: %[3]s}], ports: [{name: http, port: %[4]d}]}]}\n",
			b.namespace, b.name, b.at.IP, b.at.Port))
	}
	write("services.yaml", strings.Join(services, "---\n"))
	ingress := func(namespace, name, class, spec string) string {
		return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s, namespace: %s}\nspec:\n  ingressClassName: %s\n%s\n", name, namespace, class, spec)
	}
	write("shop.yaml", ingress("default", "shop", "mine", `
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: app, port: {name: http}}}}
      - {path: /foo, pathType: Prefix, backend: {service: {name: long, port: {number: 80}}}}
      - {path: "/a.*(b)+$", pathType: Prefix, backend: {service: {name: long, port: {number: 80}}}}
      - {path: "/%41/\u00e4", pathType: Exact, backend: {service: {name: long, port: {number: 80}}}}
      - {path: /a/../b, pathType: Prefix, backend: {service: {name: long, port: {number: 80}}}}
      - {path: /gone, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}
  tls: [{hosts: [shop.test], secretName: shop}]`)+
		"---\n{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: mine}, spec: {controller: pilotlight.io/ingress-controller}}\n")
	write("evil.yaml", ingress("evil", "thief", "pilotlight", `
  rules:
  - host: shop.test
    http: {paths: [{path: /foo/bar, pathType: Exact, backend: {service: {name: thief, port: {number: 80}}}}]}
  - host: mine.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: thief, port: {number: 80}}}}]}`))
	p := w.RunEnvoy("ingress~"+w.Address()+"~gw.default~default.svc.cluster.local", "", map[string]any{
		"NAMESPACE": "default", "LABELS": map[string]string{"gateway": "gw"},
	})
	client := lab.ClientTo("127.0.0.1:"+plain, nil)
	w.Await(client, "http://shop.test/", lab.From("app"))
	w.Await(client, "http://shop.test/foobar", lab.From("app"))
	w.Await(client, "http://shop.test/foo/bar", lab.From("long"))
	w.Await(client, "http://shop.test/a.*(b)+$/x", lab.From("long"))
	w.Await(client, "http://shop.test/abb", lab.From("app"))
	w.Await(client, "http://shop.test/gone/x", lab.Status(503))
	w.Await(client, "http://mine.test/", lab.From("thief"))

	page := func(want string) {
		t.Helper()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if text, err := lab.Get("http://" + w.Discovery.HTTP + "/debug/sources"); err != nil || !strings.Contains(text, want) {
				return fmt.Errorf("no source says %q: %s, %w", want, text, err)
			}
			return nil
		}))
	}
	at := func(file string, line int) string { return fmt.Sprintf("%s:%d: ", filepath.Join(w.Config, file), line) }
	page(at("evil.yaml", 1) + `spec.rules[0].host is \"shop.test\", which belongs to namespace default`)
	page(at("shop.yaml", 1) + `spec.rules[0].http.paths[4].path is \"/a/../b\"`)
	page(`names Secret default/shop, which is not there: want the directory ` + filepath.Join(dir, "default", "shop") + `; shop.test is served without TLS`)

	ca, err := lab.NewAuthority("public")
	w.Check(err)
	id, err := ca.Issue("shop.test", 11)
	w.Check(err)
	secretFolder(w, dir, "shop", map[string][]byte{"tls.crt": id.Chain, "tls.key": id.Key})
	trusting := lab.ClientTo("127.0.0.1:"+encrypted, &tls.Config{RootCAs: ca.Pool()})
	w.Await(trusting, "https://shop.test/foo/bar", lab.From("long"))

	w.replay(p)
	w.Check(os.Remove(filepath.Join(w.Config, "shop.yaml"))) // the host belongs to the next one that names it
	w.Await(client, "http://shop.test/foo/bar", lab.From("thief"))
	w.Await(client, "http://shop.test/", lab.Status(404))
}
