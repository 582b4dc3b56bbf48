//go:build kube

package kube

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The features that Kubernetes' own suite for controllers of Ingress asks for, by the real Envoy: hosts, also of one label,
// wildcards of one label, Exact and Prefix with and without a slash at the end, the longest path first, a default backend,
// all endpoints of a Service. TestIngressOfACluster has certificates and classes.
func TestIngressRules(t *testing.T) { lab.InNetworkNamespace(t, ingressRules) }

func ingressRules(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(ingressRights)
	for i, name := range []string{"one", "two", "three", "four", "five"} {
		w.inNamespace("default", name, fmt.Sprintf("10.1.0.2%d", i))
	}
	mesh, err := lab.NewAuthority("mesh")
	check(t, err)
	own := t.TempDir()
	id, err := mesh.Issue("spiffe://cluster.local/ns/istio-system/sa/discovery", 2)
	check(t, err)
	check(t, id.Mount(own))
	path := func(path, kind, service string) string {
		return fmt.Sprintf("{path: %s, pathType: %s, backend: {service: {name: %s, port: {number: 80}}}}", path, kind, service)
	}
	rule := func(host string, paths ...string) string {
		return fmt.Sprintf("  - {host: %q, http: {paths: [%s]}}\n", host, strings.Join(paths, ", "))
	}
	w.hand.apply(ingressOf("default", "rules", "pilotlight", "  rules:\n"+
		rule("exact-path-rules", path("/foo", "Exact", "one"))+
		rule("prefix-path-rules", path("/foo", "Prefix", "one"), path("/aaa/bbb", "Prefix", "two"), path("/aaa", "Prefix", "three"))+
		rule("mixed-path-rules", path("/foo", "Prefix", "one"), path("/foo", "Exact", "two"))+
		rule("trailing-slash-path-rules", path("/aaa/bbb/", "Prefix", "one"), path("/foo/", "Exact", "two"))+
		rule("foo.bar.com", path("/", "Prefix", "four"))+
		rule("*.foo.com", path("/", "Prefix", "five"))))
	secure := "127.0.0.1:" + port(t)
	plain, encrypted := port(t), port(t)
	w.serve("--ingressClass", "pilotlight", "--ingressPorts", plain+","+encrypted, "--secureGRPCAddr", secure,
		"--tlsCertFile", filepath.Join(own, "cert-chain.pem"), "--tlsKeyFile", filepath.Join(own, "key.pem"), "--caCertFile", filepath.Join(own, "root-cert.pem"))
	w.gateway(mesh, "ingressgateway", "10.1.0.40", secure)
	client := lab.ClientTo("10.1.0.40:"+plain, nil)
	answers := func(answers map[string]string) {
		t.Helper()
		for url, want := range answers {
			check(t, lab.Eventually(time.Minute, func() error {
				a, err := lab.Exchange(client, http.MethodGet, "http://"+url)
				if got := a.Body; err == nil && got != want && fmt.Sprint(a.Status) != want {
					err = fmt.Errorf("%s is answered by %q with %d, want %s", url, got, a.Status, want)
				}
				return err
			}))
		}
	}
	answers(map[string]string{
		"exact-path-rules/foo": "one", "exact-path-rules/foo/": "404", "exact-path-rules/FOO": "404", "exact-path-rules/bar": "404",
		"prefix-path-rules/foo": "one", "prefix-path-rules/foo/": "one", "prefix-path-rules/foo/bar": "one", "prefix-path-rules/foobar": "404",
		"prefix-path-rules/FOO": "404", "prefix-path-rules/aaa/bbb": "two", "prefix-path-rules/aaa/bbb/ccc": "two", "prefix-path-rules/aaa/bbbccc": "three",
		"prefix-path-rules/aaa/ccc": "three", "prefix-path-rules/aaaccc": "404",
		"mixed-path-rules/foo": "two", "mixed-path-rules/foo/": "one", "mixed-path-rules/foo/bar": "one",
		"trailing-slash-path-rules/aaa/bbb": "one", "trailing-slash-path-rules/aaa/bbb/": "one", "trailing-slash-path-rules/aaa/bbb/ccc": "one",
		"trailing-slash-path-rules/foo/": "two", "trailing-slash-path-rules/foo": "404",
		"foo.bar.com/": "four", "FOO.bar.com/x": "four", "subdomain.foo.bar.com/": "404",
		"bar.foo.com/": "five", "baz.bar.foo.com/": "404", "foo.com/": "404", "exact-path-rules.default.svc.cluster.local/foo": "404",
	})
	w.hand.apply(ingressOf("default", "default-backend", "pilotlight", "  defaultBackend: {service: {name: three, port: {number: 80}}}"))
	answers(map[string]string{"unknown/": "three", "unknown.com/x": "three", "baz.bar.foo.com/": "three", "foo.bar.com/": "four", "mixed-path-rules/foo": "two"})

	// A Service with ten endpoints: of a hundred requests each gets some.
	const more = 9
	slices := ""
	for i := range more {
		name, ip := fmt.Sprint("more-", i), fmt.Sprint("10.1.0.5", i)
		slices += fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: four-%s, namespace: default, labels: {kubernetes.io/service-name: four}}
addressType: IPv4
ports: [{name: http, port: %d, protocol: TCP}]
endpoints: [{addresses: [%s]}]
---`, name, backend(t, name, ip), ip)
	}
	w.hand.apply(strings.TrimSuffix(slices, "---"))
	check(t, lab.Eventually(time.Minute, func() error {
		got := map[string]int{}
		for range 100 {
			a, err := lab.Exchange(client, http.MethodGet, "http://foo.bar.com/")
			if err != nil || a.Status != http.StatusOK {
				return fmt.Errorf("answered with %d, %v", a.Status, err)
			}
			got[a.Body]++
		}
		if len(got) != more+1 {
			return fmt.Errorf("answered by %v, want all of %d", got, more+1)
		}
		return nil
	}))
}
