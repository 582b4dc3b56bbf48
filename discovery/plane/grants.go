package plane

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/discovery/validation"
)

// Domains are the DNS domains whose hosts registries may give. A program that can write to a registry can give any of them.
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
