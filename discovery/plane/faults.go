package plane

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/discovery/validation"
)

// Fault returns the error that a setting has a value, and what is wanted instead. The command that reads the settings
// knows where a value was given.
type Fault func(setting string, found any, want string) error

// Faults returns what is wrong with values that are allowed one by one, but not together.
func (c Config) Faults(fault Fault) (faults []error) {
	if c.ConfigDir == "" && len(c.Registries) == 0 && c.MeshConfig == "" && !c.Cluster.Objects {
		faults = append(faults, errors.New("--configDir is missing: want a directory or a file, or --registries, --kubernetesConfig, or --meshConfig with configSources"))
	}
	return slices.Concat(faults, c.clusterFaults(), c.ingressFaults(fault), c.registryFaults(fault), c.consulFaults(fault), c.eurekaFaults(fault),
		c.Domains.faults(c.Domain, fault), c.Webhooks.faults(), c.CloudFoundry.faults(fault), certificateFaults(c.Certificates, fault), c.Authority.faults(fault), c.issuerFaults(fault), c.sharedFaults(), c.debounceFaults(fault))
}

func (c Config) debounceFaults(fault Fault) []error {
	if c.Debounce.After <= c.Debounce.Max {
		return nil
	}
	return []error{fault("debounceAfter", c.Debounce.After, fmt.Sprintf("at most --debounceMax, which is %s", c.Debounce.Max))}
}

func (c Config) clusterFaults() (faults []error) {
	at := c.Cluster
	used := at.Objects || len(c.GatewaySecrets) > 0 || c.Webhooks.Used() || at.Settings != (Name{}) || c.MeshConfig != "" || c.inCluster()
	if at.Access.File != "" && !used {
		faults = append(faults, errors.New("--kubeconfig is given, and none of --registries Kubernetes, --kubernetesConfig, --meshConfigMap, --meshConfig and a webhook configuration"))
	}
	if at.Access.Context != "" && at.Access.File == "" {
		faults = append(faults, errors.New("--kubeContext is given without --kubeconfig"))
	}
	if at.Kubeconfig != "" && !c.inCluster() {
		faults = append(faults, errors.New("--clusterRegistriesNamespace is given, and --registries does not name Kubernetes"))
	}
	for _, file := range []struct{ name, path string }{{"meshConfig", c.MeshConfig}, {"networksConfig", c.NetworksConfig}} {
		if file.path != "" && at.Settings != (Name{}) {
			faults = append(faults, fmt.Errorf("--%s and --meshConfigMap are both given, want one of them", file.name))
		}
	}
	if at.Statuses && !at.Objects {
		faults = append(faults, errors.New("--writeStatus is given without --kubernetesConfig, whose objects it is about"))
	}
	return faults
}

func (c Config) ingressFaults(fault Fault) (faults []error) {
	if c.Ingress.Class != "" && !c.inCluster() && c.ConfigDir == "" {
		faults = append(faults, errors.New("--ingressClass is given, and there are no Ingresses: want --configDir, or Kubernetes in --registries"))
	}
	if c.Ingress.Identity == (Name{}) {
		faults = append(faults, fault("ingressIdentity", `""`, "NAMESPACE/ACCOUNT"))
	}
	if len(c.Ingress.Selector) == 0 {
		faults = append(faults, fault("ingressSelector", `""`, "one label or more: without any every gateway would serve Ingresses"))
	}
	switch {
	case c.Ingress.Service == Name{}:
	case c.Ingress.Class == "":
		faults = append(faults, errors.New("--ingressService is given without --ingressClass, whose Ingresses it is about"))
	case !c.inCluster():
		faults = append(faults, errors.New("--ingressService is given, and --registries does not name Kubernetes, whose Ingresses have a status"))
	}
	return faults
}

func (w Webhooks) faults() (faults []error) {
	switch {
	case w.Injection != Name{} && w.Mutating == "":
		faults = append(faults, errors.New("--injectConfigMap is given without --mutatingWebhookConfiguration"))
	case w.Used() && w.Service == Name{}:
		faults = append(faults, errors.New("--webhookService is missing: --mutatingWebhookConfiguration and --validatingWebhookConfiguration need it"))
	case !w.Used() && w.Service != Name{}:
		faults = append(faults, errors.New("--webhookService is given, and neither --mutatingWebhookConfiguration nor --validatingWebhookConfiguration"))
	}
	return faults
}

func certificateFaults(c ads.Certificates, fault Fault) (faults []error) {
	if c == (ads.Certificates{}) {
		return nil
	}
	for _, file := range []struct{ name, path string }{{"tlsCertFile", c.Cert}, {"tlsKeyFile", c.Key}, {"caCertFile", c.CA}} {
		if file.path == "" {
			faults = append(faults, fault(file.name, `""`, "a path: --tlsCertFile, --tlsKeyFile and --caCertFile are used together, or none of them"))
		}
	}
	return faults
}

func (a Authority) faults(fault Fault) []error {
	switch {
	case a.Used && a.Dir == "":
		return []error{fault("caDir", `""`, "a directory")}
	case a.Used && a.Terms.Default > a.Terms.Most:
		return []error{fault("caTTL", a.Terms.Default, "at most --caMaxTTL, which is "+a.Terms.Most.String())}
	case !a.Used && (len(a.Hosts) > 0 || a.Issuers != "" || a.Overlap != 0 || a.Secret != (Name{}) || !slices.Contains([]string{"", AuthorityDir}, a.Dir) ||
		!slices.Contains([]ca.Terms{{}, {Default: AuthorityTTL, Most: AuthorityTTL}}, a.Terms)):
		return []error{errors.New("--caDir, --caSecret, --caTTL, --caMaxTTL, --rootOverlap, --caHosts or --caIssuers is given without --ca")}
	}
	return nil
}

func (c Config) sharedFaults() []error {
	if c.Authority.Secret != (Name{}) && !c.inCluster() {
		return []error{errors.New("--caSecret is given, and --registries does not name Kubernetes, whose Secret it is")}
	}
	return nil
}

func (c Config) consulFaults(fault Fault) []error {
	if (c.Consul.ClientCert == "") == (c.Consul.ClientKey == "") {
		return nil
	}
	return []error{fault("consulClientCertFile", c.Consul.ClientCert, "--consulClientCertFile and --consulClientKeyFile together, or none of them")}
}

func (c Config) eurekaFaults(fault Fault) (faults []error) {
	for _, server := range c.Eureka.URLs {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fault("eurekaserverURL", server, "URLs such as http://host:8761/eureka, parted by commas"))
		}
	}
	return faults
}

// faults does not show a password.
func (c CloudFoundry) faults(fault Fault) (faults []error) {
	if (c.Broker.Cert == "") != (c.Broker.Key == "") {
		faults = append(faults, fault("natsClientCertFile", c.Broker.Cert, "--natsClientCertFile and --natsClientKeyFile together, or none of them"))
	}
	if c.Threshold <= c.Interval {
		faults = append(faults, fault("natsPruneThreshold", c.Threshold, "more than --natsRegisterInterval, which is "+c.Interval.String()+", or routes come and go"))
	}
	for _, broker := range c.Broker.URLs {
		u, err := url.Parse(broker)
		switch {
		case err != nil || u.Host == "" || u.Port() == "" || u.Scheme != "nats" && u.Scheme != "tls":
			faults = append(faults, fault("natsURL", broker, "URLs such as nats://host:4222, parted by commas"))
		case u.User != nil:
			faults = append(faults, fault("natsURL", u.Redacted(), "it without credentials, which --natsCredentialsFile takes"))
		}
	}
	return faults
}

// registryFaults returns the registries that are unknown, are named twice, or lack a setting, and settings of
// registries that are not named.
func (c Config) registryFaults(fault Fault) (faults []error) {
	type need struct {
		setting string
		given   bool
	}
	known, needs := Registries(), map[string]need{ // the others require nothing
		"CloudFoundry": {"natsURL", len(c.CloudFoundry.Broker.URLs) > 0},
		"Consul":       {"consulserverURL", c.Consul.URL != ""},
		"Eureka":       {"eurekaserverURL", len(c.Eureka.URLs) > 0},
	}
	for i, name := range c.Registries {
		n := needs[name]
		switch {
		case !slices.Contains(known, name):
			faults = append(faults, fault("registries", name, "one or more of "+strings.Join(known, ", ")))
		case slices.Contains(c.Registries[:i], name):
			faults = append(faults, fault("registries", name, "each name once"))
		case n.setting != "" && !n.given:
			faults = append(faults, fmt.Errorf("--%s is missing: --registries %s needs it", n.setting, name))
		}
	}
	for _, name := range c.Optional {
		if name == Kubernetes || !slices.Contains(c.Registries, name) && !strings.Contains(name, "://") {
			faults = append(faults, fault("optionalSources", name, "names of --registries but Kubernetes, or addresses of configSources, such as xds://host:port"))
		}
	}
	for _, name := range known {
		if n := needs[name]; n.given && !slices.Contains(c.Registries, name) {
			faults = append(faults, fmt.Errorf("--%s is given, and --registries does not name %s", n.setting, name))
		}
	}
	return faults
}

// Domains are the DNS domains whose hosts registries may give. A program that can write to a registry can give any of
// them.
type Domains struct{ Consul, Eureka, CloudFoundry []string }

func lower(domains []string) []string {
	out := slices.Clone(domains)
	for i, d := range out {
		out[i] = strings.ToLower(d)
	}
	return out
}

// never returns the domains that belong to others than a registry with these domains of its own.
func (d Domains) never(cluster model.Domain, own ...string) (out []string) {
	for _, domain := range slices.Concat([]string{"svc", "svc." + cluster.String(), eureka.Suffix, consul.Domain}, lower(d.Consul)) {
		if !slices.Contains(own, domain) && !slices.Contains(out, domain) {
			out = append(out, domain)
		}
	}
	return out
}

// ofEureka returns the hosts that Eureka may give, beside a cluster with a domain.
func (d Domains) ofEureka(cluster model.Domain) model.Grant {
	return model.Grant{Suffix: eureka.Suffix, Domains: lower(d.Eureka), Never: d.never(cluster, eureka.Suffix), Setting: "eurekaDomains"}
}

// ofCloudFoundry returns the hosts that Cloud Foundry may give.
func (d Domains) ofCloudFoundry(cluster model.Domain) model.Grant {
	return model.Grant{Domains: lower(d.CloudFoundry), Never: d.never(cluster), Setting: "natsDomains"}
}

// Elsewhere returns what registries may have that files do not have.
func (d Domains) Elsewhere(cluster model.Domain, names []string) (out validation.Registries) {
	services := model.Grant{Suffix: "svc." + cluster.String()}
	for _, name := range names {
		r := validation.Registry{Name: name, Hosts: services} // those of Mock are below it too
		switch name {
		case Kubernetes:
			r.Cluster = true
		case "Consul":
			r.Hosts = model.Grant{Suffix: consul.Domain, Domains: lower(d.Consul)}
		case "Eureka":
			r.Hosts = d.ofEureka(cluster)
		case "CloudFoundry":
			r.Hosts = d.ofCloudFoundry(cluster)
		}
		out = append(out, r)
	}
	return out
}

var domainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)

// faults returns the domains that are no domains, or those of others.
func (d Domains) faults(cluster model.Domain, fault Fault) (faults []error) {
	for _, of := range []struct {
		setting string
		domains []string
		never   []string
		all     bool // * is allowed
	}{
		{"consulDomains", d.Consul, d.never(cluster, append(lower(d.Consul), consul.Domain)...), false},
		{"eurekaDomains", d.Eureka, d.never(cluster, eureka.Suffix), true},
		{"natsDomains", d.CloudFoundry, d.never(cluster), true},
	} {
		if len(of.domains) == 0 && of.setting != "eurekaDomains" {
			faults = append(faults, fault(of.setting, `""`, "at least one domain"))
		}
		for _, domain := range of.domains {
			switch {
			case of.all && domain == "*":
			case len(domain) > 253 || !domainForm.MatchString(strings.ToLower(domain)):
				faults = append(faults, fault(of.setting, domain, "DNS domains such as apps.example.com, parted by commas"))
			default:
				if _, err := (model.Grant{Domains: []string{"*"}, Never: of.never}).Right("x." + strings.ToLower(domain)); err != nil {
					want := fmt.Sprintf("a domain that is not Kubernetes' or another registry's: none of %s", strings.Join(of.never, ", "))
					faults = append(faults, fault(of.setting, domain, want))
				}
			}
		}
	}
	return faults
}

// Name is the namespace and the name of an object of the cluster. The zero one is none.
type Name struct{ Namespace, Name string }

// ParseName reads NAMESPACE/NAME; an empty text is none. With an error it returns the text as a name.
func ParseName(text string) (Name, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if text != "" && (namespace == "" || name == "" || strings.Contains(name, "/")) {
		return Name{Name: text}, fmt.Errorf("is %q, want NAMESPACE/NAME", text)
	}
	return Name{namespace, name}, nil
}

// String returns NAMESPACE/NAME; "" for none.
func (n Name) String() string {
	if n == (Name{}) {
		return ""
	}
	return n.Namespace + "/" + n.Name
}

// Names are several of them.
type Names []Name

// ParseNames reads names with commas between them.
func ParseNames(text string) (out Names, err error) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		name, err := ParseName(part)
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

func (n Names) String() string {
	texts := make([]string, len(n))
	for i, name := range n {
		texts[i] = name.String()
	}
	return strings.Join(texts, ",")
}

// Ports are two ports of a proxy.
type Ports struct{ HTTP, HTTPS uint32 }

// ParsePorts reads HTTP,HTTPS.
func ParsePorts(text string) (Ports, error) {
	first, second, _ := strings.Cut(text, ",")
	a, err := strconv.ParseUint(first, 10, 16)
	b, also := strconv.ParseUint(second, 10, 16)
	if err != nil || also != nil || a == 0 || b == 0 || a == b {
		return Ports{}, fmt.Errorf("is %q, want two ports, such as 80,443", text)
	}
	return Ports{uint32(a), uint32(b)}, nil
}

func (p Ports) String() string { return fmt.Sprintf("%d,%d", p.HTTP, p.HTTPS) }
