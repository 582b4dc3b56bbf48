package model

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Domain is the DNS domain of a cluster: a service has the host NAME.NAMESPACE.svc.DOMAIN. It has lower case, and no
// dot at its end. The empty Domain is DefaultDomain.
type Domain string

// DefaultDomain is the default of Kubernetes and of Istio.
const DefaultDomain Domain = "cluster.local"

const maxDomain = 253 // bytes, by RFC 1035

// domainForm is the form that Kubernetes requires of the domain of a cluster, in upper or lower case.
var domainForm = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)

const label = `[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?`

// ParseDomain returns the domain that a text names, in upper or lower case, with or without a dot at its end. The domain
// of a proxy, NAMESPACE.svc.DOMAIN, is an error, as well as svc.DOMAIN.
func ParseDomain(text string) (Domain, error) {
	given := strings.TrimSuffix(text, ".")
	d := strings.ToLower(given)
	_, behind, proxys := strings.Cut("."+d, svc)
	switch {
	case len(given) > maxDomain || !domainForm.MatchString(given):
		return "", fmt.Errorf("is %q, want a DNS domain such as %s", text, DefaultDomain)
	case proxys && (strings.HasPrefix(d, svc[1:]) || Domain(behind) == DefaultDomain):
		return "", fmt.Errorf("is %q, want only the part after svc: %s", text, behind)
	}
	return Domain(d), nil
}

func (d Domain) String() string { return string(cmp.Or(d, DefaultDomain)) }

// Host returns the host of a service.
func (d Domain) Host(name, namespace string) string { return name + "." + namespace + svc + d.String() }

// Qualify resolves a host as written in an object of namespace: a name without a dot is a service of that namespace, as
// in Istio ("reviews" → "reviews.default.svc.cluster.local"). Any other host is returned in lower case.
func (d Domain) Qualify(host, namespace string) string {
	host = strings.ToLower(host)
	if host == "" || host == "*" || strings.ContainsAny(host, ".:") {
		return host
	}
	return d.Host(host, namespace)
}

// cut returns the part of the host of a service before ".svc.DOMAIN", and false for any other host.
func (d Domain) cut(host string) (string, bool) {
	before, below := strings.CutSuffix(host, d.String())
	before, ok := strings.CutSuffix(before, svc)
	return before, below && ok
}

// has reports whether a host is that of a service of the domain, by its form.
func (d Domain) has(host string) bool {
	_, ok := d.cut(host)
	return ok
}

// MeshGateway is the name of all sidecars in a list of gateways.
const MeshGateway = "mesh"

// QualifyGateway resolves a gateway's name as written in an object of namespace: "ingress" → "default/ingress". The old
// form "ingress.istio-system.svc.cluster.local" is accepted as well.
func (d Domain) QualifyGateway(name, namespace string) string {
	if name == MeshGateway || strings.Contains(name, "/") {
		return name
	}
	if short, found := d.cut(name); found {
		name = short
	}
	if name, other, found := strings.Cut(name, "."); found {
		return other + "/" + name
	}
	return namespace + "/" + name
}

// qualifyVirtualService returns a copy whose hosts, destinations and gateways are full names.
func (d Domain) qualifyVirtualService(in *networking.VirtualService, of Meta) *networking.VirtualService {
	out, namespace := proto.CloneOf(in), of.Namespace
	for i, host := range out.Hosts {
		if !of.WholeHosts {
			out.Hosts[i] = d.Qualify(host, namespace)
		}
	}
	for i, gateway := range out.Gateways {
		out.Gateways[i] = d.QualifyGateway(gateway, namespace)
	}
	qualify := func(to *networking.Destination) {
		if to != nil {
			to.Host = d.Qualify(to.Host, namespace)
		}
	}
	gateways := func(names []string) {
		for i, name := range names {
			names[i] = d.QualifyGateway(name, namespace)
		}
	}
	for _, route := range out.Http {
		for _, r := range route.Route {
			qualify(r.GetDestination())
		}
		qualify(route.Mirror)
		for _, m := range route.Mirrors {
			qualify(m.GetDestination())
		}
		for _, match := range route.Match {
			gateways(match.GetGateways())
		}
	}
	for _, route := range out.Tls {
		for _, r := range route.Route {
			qualify(r.GetDestination())
		}
		for _, match := range route.Match {
			gateways(match.GetGateways())
		}
	}
	for _, route := range out.Tcp {
		for _, r := range route.Route {
			qualify(r.GetDestination())
		}
		for _, match := range route.Match {
			gateways(match.GetGateways())
		}
	}
	return out
}
