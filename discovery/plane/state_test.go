package plane

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// What was kept is not used once the cluster, the domain, or what a source may contribute is another. Other settings change nothing.
func TestStateOf(t *testing.T) {
	sources := []string{"Consul", "Eureka", "CloudFoundry", "meshConfigMap", "ingress", Kubernetes, remote("east"), "kubernetesConfig", "config"}
	was := map[string]any{}
	for _, source := range sources {
		was[source] = Config{}.stateOf(source)
	}
	for name, test := range map[string]struct {
		config  Config
		changed []string
	}{
		"nothing":                    {Config{}, nil},
		"an address":                 {Config{ConfigDir: "/x", Cluster: Cluster{Access: kube.Access{File: "/y"}}}, nil},
		"the domain":                 {Config{Domain: "corp"}, sources},
		"the cluster":                {Config{Cluster: Cluster{ID: "east"}}, sources},
		"the namespaces":             {Config{Cluster: Cluster{Namespaces: []string{"a"}}}, []string{Kubernetes, remote("east"), "kubernetesConfig"}},
		"the ConfigMap":              {Config{Cluster: Cluster{Settings: Name{"a", "b"}}}, []string{"meshConfigMap"}},
		"Consul's domains":           {Config{Domains: Domains{Consul: []string{"a.com"}}}, []string{"Consul", "Eureka", "CloudFoundry"}},
		"Eureka's domains":           {Config{Domains: Domains{Eureka: []string{"a.com"}}}, []string{"Eureka"}},
		"those of CloudFoundry":      {Config{Domains: Domains{CloudFoundry: []string{"a.com"}}}, []string{"CloudFoundry"}},
		"the class of the Ingresses": {Config{Ingress: Ingress{Class: "a"}}, []string{"ingress"}},
	} {
		changed := map[string]bool{}
		for _, source := range test.changed {
			changed[source] = true
		}
		for _, source := range sources {
			if is := test.config.stateOf(source); (is != was[source]) != changed[source] {
				t.Errorf("%s changes %s: %+v, want a change: %t", name, source, is, changed[source])
			}
		}
	}
}

func TestAdderOf(t *testing.T) {
	for source, want := range map[string]string{
		"Kubernetes": "", "Kubernetes/east": "clusters", "Consul": "", "xds://istiod:15010": "meshConfig", "fs:///etc/x": "meshConfig", "config": "",
	} {
		if got := adderOf(source); got != want {
			t.Errorf("%s is added by %q, want %q", source, got, want)
		}
	}
}
