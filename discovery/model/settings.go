package model

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Settings holds the settings of the whole mesh: Istio's MeshConfig and MeshNetworks, which are empty if they were not
// configured, and the domain of its services, which is the same in every generation.
type Settings struct {
	Domain   Domain
	Config   *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks

	// LoopbackEndpoints allows endpoints at loopback addresses to all proxies: the whole mesh is on one machine. It is the
	// same in every generation too.
	LoopbackEndpoints bool

	// Listeners are the addresses at which discovery admits callers by certificates, as IP:PORT with commas. They are the same in every
	// generation; Doors, which the mesh sets, has what leads to them.
	Listeners string
	Doors     *Doors

	// Bounds, if not nil, are other ones of what a namespace gives to others. They are the same in every generation.
	Bounds *Bounds

	Release string // of this discovery, "v0.2.0", or what else a build is called; the same in every generation
}

// constant returns the settings that are the same in every generation.
func (s Settings) constant() Settings {
	return Settings{Domain: s.Domain, LoopbackEndpoints: s.LoopbackEndpoints, Listeners: s.Listeners, Bounds: s.Bounds, Release: s.Release}
}

func (s *Settings) fill() {
	if s.Config == nil {
		s.Config = defaultConfig
	}
	if s.Networks == nil {
		s.Networks = defaultNetworks
	}
}

// Settings that are not configured are the same pointers in every generation.
var (
	defaultConfig   = &meshconfig.MeshConfig{}
	defaultNetworks = &meshconfig.MeshNetworks{}
)

// RootNamespace returns the namespace whose objects apply to every namespace.
func (s Settings) RootNamespace() string {
	return cmp.Or(s.Config.GetRootNamespace(), "istio-system")
}

// TrustDomains returns the trust domains of the mesh: its own, which is Istio's default if not configured, then its
// aliases.
func (s Settings) TrustDomains() []string {
	return append([]string{cmp.Or(s.Config.GetTrustDomain(), "cluster.local")}, s.Config.GetTrustDomainAliases()...)
}

// Subjects returns the names that certificates of a service may have: its own subjectAltNames, and those of its
// accounts in each trust domain.
func (s Settings) Subjects(of *Service) []string {
	if len(of.Accounts) == 0 {
		return of.SubjectAltNames
	}
	out := slices.Clone(of.SubjectAltNames)
	for _, domain := range s.TrustDomains() {
		for _, account := range of.Accounts {
			namespace, name, _ := strings.Cut(account, "/")
			out = append(out, "spiffe://"+domain+"/ns/"+namespace+"/sa/"+name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SubjectsOfEndpoints does the same, with the accounts of the service's endpoints too.
func (s Settings) SubjectsOfEndpoints(of *Service) []string {
	accounts := slices.Clone(of.Accounts)
	for _, e := range of.Endpoints {
		if e.ServiceAccount != "" {
			accounts = append(accounts, of.Namespace+"/"+e.ServiceAccount)
		}
	}
	slices.Sort(accounts)
	return s.Subjects(&Service{SubjectAltNames: of.SubjectAltNames, Accounts: slices.Compact(accounts)})
}

// RegistryOnly reports whether requests to unknown destinations are rejected, by MeshConfig; Istio's default allows
// them.
func (s Settings) RegistryOnly() bool {
	policy := s.Config.GetOutboundTrafficPolicy()
	return policy != nil && policy.Mode == meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY
}

// asked yields the hosts that proxies send to by themselves: collectors of spans, and providers for authorization.
func (s Settings) asked() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range s.Config.GetExtensionProviders() {
			for _, host := range []string{p.GetZipkin().GetService(), p.GetOpentelemetry().GetService()} {
				if host != "" && !yield(s.Domain.Qualify(host, "default")) {
					return
				}
			}
			if service, _ := authorizerAt(p); service != "" {
				if _, host := s.authorizerHost(service); !yield(host) {
					return
				}
			}
		}
	}
}

// Locality returns the mesh's default for locality load balancing, or nil if it has none.
func (s Settings) Locality() *networking.LocalityLoadBalancerSetting {
	return s.Config.GetLocalityLbSetting()
}
