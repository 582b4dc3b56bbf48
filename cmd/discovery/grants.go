package main

import (
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// domainSettings are the settings of the hosts that registries may give.
func domainSettings(to *plane.Domains) []setting.Setting {
	return []setting.Setting{
		{
			Name: "consulDomains", Default: consul.Domain, Kind: setting.List(&to.Consul),
			Help: "DNS domains of Consul, its domain and alt_domain: each service is served as NAME.service.DOMAIN in each of them. A host " +
				"that a Service of Kubernetes or a ServiceEntry has is never Consul's, unless it is below consul",
		},
		{
			Name: "eurekaDomains", Kind: setting.List(&to.Eureka),
			Help: "domains whose hosts Eureka may give, each with all below it; * for every host. Names without a dot are always served, below " +
				eureka.Suffix + ". A host that a Service of Kubernetes or a ServiceEntry has is never Eureka's",
		},
		{
			Name: "natsDomains", Default: "*", Kind: setting.List(&to.CloudFoundry),
			Help: "domains of a Cloud Foundry's routes, each with all below it; * for every host. A host that a Service of Kubernetes or a " +
				"ServiceEntry has is never Cloud Foundry's, nor one below svc.DOMAIN of --domain and below the domains of other registries",
		},
	}
}
