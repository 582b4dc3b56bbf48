//go:build kube

package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// serviceOf is a Service and its only slice.
func serviceOf(namespace, name, annotations, address string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s, annotations: {%[3]s}}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: [%[4]s]}]`, namespace, name, annotations, address)
}

func namespaceOf(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}"
}

// The registry keeps the contract of a source, with what an API server sends.
func TestRegistryContract(t *testing.T) {
	c := startCluster(t)
	hand := c.hand()
	hand.apply(namespaceOf("warm")) // the connection is there before goroutines are counted
	relay := startRelay(t, c.address)
	n := 0
	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry {
		n++
		namespace, touched := fmt.Sprintf("contract-%d", n), 0
		hand := hand
		hand.t = t
		hand.apply(namespaceOf(namespace))
		relay.set(false)
		config := c.config("admin")
		config.Host = "https://" + relay.listener.Addr().String()
		last := map[string]string{}
		put := func(name, annotations, address string) {
			last[name] = address
			hand.apply(serviceOf(namespace, name, annotations, address))
		}
		return sourcetest.Registry{
			Source: kubernetes.Source{Connect: func() (*kube.Client, error) { return kube.New(config, "test") }, Namespaces: []string{namespace}, Options: catalog.Options{Cluster: "c1"}},
			Host:   func(name string) string { return name + "." + namespace + ".svc.cluster.local" },
			Put:    func(name, address string) { put(name, "", address) },
			Delete: func(name string) { hand.delete(serviceOf(namespace, name, "", "10.0.0.1")) },
			Spoil: func(name string) {
				address := last[name]
				if address == "" {
					address = "10.0.0.1"
				}
				put(name, "networking.istio.io/exportTo: NOBODY", address)
			},
			Break: func() { relay.set(true) },
			Mend:  func() { relay.set(false) },
			Touch: func() {
				touched++
				for name, address := range last {
					put(name, fmt.Sprintf("touched: %q", strings.Repeat("x", touched)), address)
				}
			},
		}
	})
}
