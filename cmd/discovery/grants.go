package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// grants are the DNS domains whose hosts a registry may give. A program that can write to the registry can give any of them.
type grants struct{ consul, eurekas, natses []string }

func (g *grants) settings() []setting.Setting {
	return []setting.Setting{
		{
			Name: "consulDomains", Default: consul.Domain, Kind: setting.List(&g.consul),
			Help: "DNS domains of Consul, its domain and alt_domain: each service is served as NAME.service.DOMAIN in each of them. A host " +
				"that a Service of Kubernetes or a ServiceEntry has is never Consul's, unless it is below consul",
		},
		{
			Name: "eurekaDomains", Kind: setting.List(&g.eurekas),
			Help: "domains whose hosts Eureka may give, each with all below it; * for every host. Names without a dot are always served, below " +
				eureka.Suffix + ". A host that a Service of Kubernetes or a ServiceEntry has is never Eureka's",
		},
		{
			Name: "natsDomains", Default: "*", Kind: setting.List(&g.natses),
			Help: "domains of a Cloud Foundry's routes, each with all below it; * for every host. A host that a Service of Kubernetes or a " +
				"ServiceEntry has is never Cloud Foundry's, nor one below svc.DOMAIN of --domain and below the domains of other registries",
		},
	}
}

// never returns the domains that belong to others than a registry with these domains of its own.
func (g *grants) never(domain model.Domain, own ...string) (out []string) {
	for _, d := range slices.Concat([]string{"svc", "svc." + domain.String(), eureka.Suffix, consul.Domain}, g.consul) {
		if !slices.Contains(own, d) && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

func (g *grants) eureka(domain model.Domain) model.Grant {
	return model.Grant{Domains: lower(g.eurekas), Never: g.never(domain, eureka.Suffix), Setting: "eurekaDomains"}
}

func (g *grants) nats(domain model.Domain) model.Grant {
	return model.Grant{Domains: lower(g.natses), Never: g.never(domain), Setting: "natsDomains"}
}

func lower(domains []string) []string {
	out := slices.Clone(domains)
	for i, d := range out {
		out[i] = strings.ToLower(d)
	}
	return out
}

var domainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)

// wrongName is a domain that a setting may not have.
type wrongName struct{ name, found, want string }

func (g *grants) faults(domain model.Domain) (faults []wrongName) {
	for _, of := range []struct {
		name    string
		domains []string
		never   []string
		all     bool // * is allowed
	}{
		{"consulDomains", g.consul, g.never(domain, slices.Concat(g.consul, []string{consul.Domain})...), false},
		{"eurekaDomains", g.eurekas, g.never(domain, eureka.Suffix), true},
		{"natsDomains", g.natses, g.never(domain), true},
	} {
		if len(of.domains) == 0 && of.name != "eurekaDomains" {
			faults = append(faults, wrongName{of.name, `""`, "at least one domain"})
		}
		for _, d := range of.domains {
			switch {
			case of.all && d == "*":
			case len(d) > 253 || !domainForm.MatchString(strings.ToLower(d)):
				faults = append(faults, wrongName{of.name, d, "DNS domains such as apps.example.com, parted by commas"})
			default:
				if _, err := (model.Grant{Domains: []string{"*"}, Never: of.never}).Right("x." + strings.ToLower(d)); err != nil {
					faults = append(faults, wrongName{of.name, d, "a domain that is not Kubernetes' or another registry's: none of " + strings.Join(of.never, ", ")})
				}
			}
		}
	}
	return faults
}
