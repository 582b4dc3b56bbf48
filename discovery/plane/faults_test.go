package plane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/acme/client"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ca"
)

func name(text string) Name {
	n, err := ParseName(text)
	if err != nil {
		panic(err)
	}
	return n
}

// sound returns a configuration without faults.
func sound() Config {
	return Config{
		ConfigDir: "mesh", Domain: "cluster.local", Domains: Domains{Consul: []string{"consul"}, CloudFoundry: []string{"*"}},
		Ingress:      Ingress{Selector: map[string]string{"istio": "ingressgateway"}, Identity: name("istio-system/ingressgateway"), Ports: Ports{80, 443}},
		CloudFoundry: CloudFoundry{Interval: time.Second, Threshold: time.Minute}, Debounce: discovery.Debounce{After: 1, Max: 2},
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		change func(*Config)
		want   string // the start of each fault
	}{
		{func(c *Config) {}, ""},
		{func(c *Config) { c.ConfigDir = "" }, "--configDir is missing"},
		{func(c *Config) { c.Debounce.After = 3 }, "--debounceAfter 3ns: want at most --debounceMax, which is 2ns"},
		{func(c *Config) { c.Cluster.Access.File = "k" }, "--kubeconfig is given, and none of"},
		{func(c *Config) { c.Cluster.Access.File, c.GatewaySecrets = "k", Names{name("a/b")} }, ""},
		{func(c *Config) { c.Cluster.Access.File, c.MeshConfig = "k", "m" }, ""},
		{func(c *Config) { c.Cluster.Access.Context = "c" }, "--kubeContext is given without --kubeconfig"},
		{func(c *Config) { c.Cluster.Kubeconfig = "a" }, "--clusterRegistriesNamespace is given, and --registries does not name Kubernetes"},
		{func(c *Config) { c.Cluster.Settings, c.MeshConfig = name("a/b"), "m" }, "--meshConfig and --meshConfigMap are both given"},
		{func(c *Config) { c.Cluster.Settings, c.NetworksConfig = name("a/b"), "m" }, "--networksConfig and --meshConfigMap are both given"},
		{func(c *Config) { c.Cluster.Statuses = true }, "--writeStatus is given without --kubernetesConfig"},
		{func(c *Config) { c.Ingress.Class, c.ConfigDir, c.MeshConfig = "i", "", "m" }, "--ingressClass is given, and there are no Ingresses"},
		{func(c *Config) { c.Ingress.Class = "i" }, ""},
		{func(c *Config) { c.Ingress.Identity = Name{} }, `--ingressIdentity "": want NAMESPACE/ACCOUNT`},
		{func(c *Config) { c.Ingress.Selector = nil }, `--ingressSelector "": want one label or more`},
		{func(c *Config) { c.Ingress.Service = name("a/b") }, "--ingressService is given without --ingressClass"},
		{func(c *Config) { c.Ingress.Service, c.Ingress.Class = name("a/b"), "i" }, "--ingressService is given, and --registries does not name"},
		{func(c *Config) { c.Registries = []string{"Zookeeper"} }, "--registries Zookeeper: want one or more of CloudFoundry, Consul"},
		{func(c *Config) { c.Registries = []string{"Mock", "Mock"} }, "--registries Mock: want each name once"},
		{func(c *Config) { c.Registries = []string{"Consul"} }, "--consulserverURL is missing: --registries Consul needs it"},
		{func(c *Config) { c.Eureka.URLs = []string{"http://e/eureka"} }, "--eurekaserverURL is given, and --registries does not name Eureka"},
		{func(c *Config) { c.Registries, c.Eureka.URLs = []string{"Eureka"}, []string{"e:8761"} }, "--eurekaserverURL e:8761: want URLs"},
		{func(c *Config) { c.Consul.ClientKey = "k" }, "--consulClientCertFile : want --consulClientCertFile and --consulClientKeyFile together"},
		{func(c *Config) { c.Optional = []string{"Mock"} }, "--optionalSources Mock: want names of --registries but Kubernetes"},
		{func(c *Config) { c.Optional = []string{"xds://h:1"} }, ""},
		{func(c *Config) { c.Registries, c.Optional = []string{Kubernetes}, []string{Kubernetes} }, "--optionalSources Kubernetes: want names"},
		{func(c *Config) { c.Domains.Consul = nil }, `--consulDomains "": want at least one domain`},
		{func(c *Config) { c.Domains.Eureka = []string{"svc.cluster.local"} }, "--eurekaDomains svc.cluster.local: want a domain that is not"},
		{func(c *Config) { c.Webhooks.Injection = name("a/b") }, "--injectConfigMap is given without --mutatingWebhookConfiguration"},
		{func(c *Config) { c.Webhooks.Mutating = "m" }, "--webhookService is missing"},
		{func(c *Config) { c.Webhooks.Service = name("a/b") }, "--webhookService is given, and neither"},
		{func(c *Config) { c.CloudFoundry.Threshold = time.Second }, "--natsPruneThreshold 1s: want more than --natsRegisterInterval, which is 1s"},
		{func(c *Config) { c.CloudFoundry.Broker.Cert = "c" }, "--natsClientCertFile c: want --natsClientCertFile and --natsClientKeyFile together"},
		{func(c *Config) { c.Certificates = ads.Certificates{Cert: "c", Key: "k"} }, `--caCertFile "": want a path`},
		{func(c *Config) {
			c.Authority = Authority{Dir: AuthorityDir, Terms: ca.Terms{Default: AuthorityTTL, Most: AuthorityTTL}}
		}, ""},
		{func(c *Config) { c.Authority.Dir = "d" }, "--caDir, --caSecret, --caTTL, --caMaxTTL, --rootOverlap, --caHosts or --caIssuers is given without --ca"},
		{func(c *Config) { c.Authority.Issuers = "i" }, "--caDir, --caSecret, --caTTL, --caMaxTTL, --rootOverlap, --caHosts or --caIssuers is given without --ca"},
		{func(c *Config) { c.Authority.Overlap = time.Hour }, "--caDir, --caSecret, --caTTL, --caMaxTTL, --rootOverlap, --caHosts or --caIssuers is given without --ca"},
		{func(c *Config) { c.Authority.Terms.Most = time.Hour }, "--caDir, --caSecret, --caTTL, --caMaxTTL, --rootOverlap, --caHosts or --caIssuers is given without --ca"},
		{func(c *Config) {
			c.Authority = Authority{Used: true, Dir: "d", Terms: ca.Terms{Default: 1, Most: 1}, Secret: Name{"n", "s"}}
		}, "--caSecret is given, and --registries does not name Kubernetes"},
		{func(c *Config) { c.Issuers.Gateways = Names{name("a/b")} }, "--acmeGateways, --acmeInside or --acmeSecret is given without --acmeIssuer"},
		{func(c *Config) { c.Issuers.Of, c.Issuers.Gateways = client.Issuers{{Name: "a"}}, Names{name("a/b")} }, `--stateDir "": want a directory, or --acmeSecret: keys and certificates`},
		{func(c *Config) { c.Issuers.Of, c.StateDir = client.Issuers{{Name: "a"}}, "s" }, `--acmeGateways "": want the service accounts`},
		{func(c *Config) {
			c.Issuers.Of, c.StateDir, c.Issuers.Gateways = client.Issuers{{Name: "a"}}, "s", Names{name("a/b")}
		}, ""},
		{func(c *Config) {
			c.Issuers.Of, c.Issuers.Secret, c.Issuers.Gateways = client.Issuers{{Name: "a"}}, name("a/b"), Names{name("a/b")}
		}, "--acmeSecret is given, and --registries does not name Kubernetes"},
		{func(c *Config) {
			c.Registries, c.Issuers.Of, c.Issuers.Secret, c.Issuers.Gateways = []string{Kubernetes}, client.Issuers{{Name: "a"}}, name("a/b"), Names{name("a/b")}
		}, ""},
		{func(c *Config) { c.Issuers.Secret = name("a/b") }, "--acmeGateways, --acmeInside or --acmeSecret is given without --acmeIssuer"},
		{func(c *Config) { c.Authority.Used = true }, `--caDir "": want a directory`},
		{func(c *Config) { c.Authority = Authority{Used: true, Dir: "d", Terms: ca.Terms{Default: 2, Most: 1}} }, "--caTTL 2ns: want at most --caMaxTTL, which is 1ns"},
		{
			func(c *Config) {
				c.Registries, c.CloudFoundry.Broker.URLs = []string{"CloudFoundry"}, []string{"nats://user:secret@h:4222"}
			},
			"--natsURL nats://user:xxxxx@h:4222: want it without credentials",
		},
	}
	for _, test := range tests {
		c := sound()
		test.change(&c)
		faults := c.Faults(func(setting string, found any, want string) error {
			return fmt.Errorf("--%s %v: want %s", setting, found, want)
		})
		switch {
		case test.want == "" && len(faults) == 0:
		case test.want == "" || len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), test.want):
			t.Errorf("got %v, want %q", faults, test.want)
		}
	}
}

func TestNamesAreRead(t *testing.T) {
	for text, want := range map[string]string{"": "", "a/b": "a/b", "a/b,c/d": "a/b,c/d", "a/b,": "a/b"} {
		if names, err := ParseNames(text); err != nil || names.String() != want {
			t.Errorf("%q: got %q and %v", text, names, err)
		}
	}
	for _, text := range []string{"a", "a/", "/a", "a/b/c", "/", "a/b,c"} {
		if names, err := ParseNames(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, names)
		}
	}
	for text, ok := range map[string]bool{"80,443": true, "80": false, "80,80": false, "0,1": false, "80,443,1": false, "80,65536": false, "": false} {
		if ports, err := ParsePorts(text); (err == nil) != ok || ok && ports.String() != text {
			t.Errorf("%q: got %s and %v", text, ports, err)
		}
	}
}

// A registry may have the hosts of its domains, and none of another's.
func TestElsewhere(t *testing.T) {
	domains := Domains{Consul: []string{"consul", "DC.example"}, Eureka: []string{"apps.example.com"}, CloudFoundry: []string{"*"}}
	hosts := []string{"a.shop.svc.cluster.local", "a.service.consul", "a.service.dc.example", "a.service.eureka", "a.apps.example.com", "a.example.org"}
	for name, want := range map[string][]bool{
		"Kubernetes":   {true, false, false, false, false, false},
		"Mock":         {true, false, false, false, false, false},
		"Consul":       {false, true, true, false, false, false},
		"Eureka":       {false, false, false, true, true, false},
		"CloudFoundry": {false, false, false, false, true, true}, // DC.example is Consul's, however it is spelt
	} {
		registries := domains.Elsewhere("", []string{name})
		var got []bool
		for _, host := range hosts {
			_, err := registries[0].Hosts.Right(host)
			got = append(got, err == nil)
		}
		if !slices.Equal(got, want) || registries[0].Cluster != (name == Kubernetes) {
			t.Errorf("%s: %v, want %v of %v", name, got, want, hosts)
		}
	}
}
