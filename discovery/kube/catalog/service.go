package catalog

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Annotations of Services that Istio's users set.
const (
	exportToAnnotation     = "networking.istio.io/exportTo"
	accountsAnnotation     = "alpha.istio.io/kubernetes-serviceaccounts" // names of the Service's namespace
	distributionAnnotation = "networking.istio.io/traffic-distribution"  // like spec.trafficDistribution, which has precedence
	canonicalAnnotation    = "alpha.istio.io/canonical-serviceaccounts"  // full names
)

// service is a Service, with the faults of its newest form.
type service struct {
	good   *declared // its last good form; nil for none
	faults []string
	listed []string // addresses of its slices when its group was made last, for which listing has it; of a headless one
}

// declared is a Service without its endpoints.
type declared struct {
	service   model.Service
	families  []corev1.IPFamily // clients call endpoints by addresses of the first
	always    bool              // endpoints take requests with any readiness
	endpoints bool              // they come from EndpointSlices
	named     map[string]bool   // the names of ports that lead to a port of Pods by its name
}

func (c *Catalog) putService(key Key, o *corev1.Service, at model.Origin) {
	s := c.services[key]
	if s == nil {
		s = &service{}
		c.services[key] = s
	}
	d, faults := c.declare(o, at)
	if s.faults = faults; len(faults) == 0 {
		c.move(key, s.addresses(), d.service.Addresses)
		s.good = d
	}
	c.dirty[key] = true
}

// declare reads a Service.
func (c *Catalog) declare(o *corev1.Service, at model.Origin) (*declared, []string) {
	var r faults
	d := &declared{
		service: model.Service{
			Right: model.RightFull, Registry: c.options.Registry, Cluster: c.options.Cluster, Origin: at,
			Host:      strings.ToLower(c.options.Domain.Host(o.Name, o.Namespace)),
			Namespace: o.Namespace, Name: o.Name, Created: o.CreationTimestamp.Time, Resolution: model.ResolutionStatic,
			Selector: o.Spec.Selector,
		},
		families: o.Spec.IPFamilies, always: o.Spec.PublishNotReadyAddresses, endpoints: true,
	}
	d.service.Ports, d.named = r.ports(o.Spec.Ports), map[string]bool{}
	for _, p := range o.Spec.Ports {
		d.named[p.Name] = p.TargetPort.Type == intstr.String
	}
	switch o.Spec.Type {
	case corev1.ServiceTypeExternalName:
		d.externalName(&r, o)
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, "":
		d.clusterIPs(&r, o)
	default:
		r.addf("spec.type is %q, want ClusterIP, NodePort, LoadBalancer or ExternalName", o.Spec.Type)
	}
	d.near(o)
	d.service.ExportTo = r.exportTo(o.Annotations[exportToAnnotation])
	for _, account := range list(o.Annotations[accountsAnnotation]) {
		if !name.MatchString(account) {
			r.addf("metadata.annotations[%s] has %q, want names of service accounts, with commas between them", accountsAnnotation, account)
		}
		d.service.Accounts = append(d.service.Accounts, o.Namespace+"/"+account)
	}
	d.service.SubjectAltNames = list(o.Annotations[canonicalAnnotation])
	return d, r
}

// near reads the fields by which a client prefers some of the endpoints. sessionAffinity, by the client's address, is
// left to policies, since a proxy balances requests, not only connections.
func (d *declared) near(o *corev1.Service) {
	if !d.endpoints {
		return
	}
	if p := o.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		d.service.NodeLocal = true
	}
	distribution := o.Annotations[distributionAnnotation]
	if o.Spec.TrafficDistribution != nil {
		distribution = *o.Spec.TrafficDistribution
	}
	switch distribution {
	case "":
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
		d.service.Prefer = model.PreferZone
	case corev1.ServiceTrafficDistributionPreferSameNode:
		d.service.Prefer = model.PreferNode
	default:
		d.service.Ignored = append(d.service.Ignored, fmt.Sprintf("spec.trafficDistribution is %q, which is not known here: requests go to all endpoints", distribution))
	}
	if o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		d.service.Ignored = append(d.service.Ignored, "spec.sessionAffinity is ClientIP, which sidecars do not read, as Istio's do not: requests go to all endpoints; "+
			"for one endpoint of each client want a DestinationRule with trafficPolicy.loadBalancer.consistentHash.useSourceIp")
	}
}

// externalName makes d a service of a DNS name, or of an IP address in its place.
func (d *declared) externalName(r *faults, o *corev1.Service) {
	target := strings.TrimSuffix(strings.ToLower(o.Spec.ExternalName), ".")
	d.endpoints, d.service.Selector, d.service.External, d.service.Resolution = false, nil, true, model.ResolutionDNS
	if _, err := netip.ParseAddr(target); err == nil {
		d.service.Resolution = model.ResolutionStatic
	} else if !name.MatchString(target) {
		r.addf("spec.externalName is %q, want a DNS name", o.Spec.ExternalName)
	} else {
		d.service.ExternalName = target
	}
	d.service.Endpoints = []model.Endpoint{{Address: target, Cluster: d.service.Cluster}}
	for i := range d.service.Ports {
		d.service.Ports[i].Target = 0 // clients dial the name at the service's port: there is no translation
	}
}

func (d *declared) clusterIPs(r *faults, o *corev1.Service) {
	addresses := o.Spec.ClusterIPs
	if len(addresses) == 0 && o.Spec.ClusterIP != "" {
		addresses = []string{o.Spec.ClusterIP}
	}
	if slices.Equal(addresses, []string{corev1.ClusterIPNone}) {
		d.service.Headless, d.service.Resolution = true, model.ResolutionNone
		return
	}
	for _, a := range addresses {
		if _, err := netip.ParseAddr(a); err != nil {
			r.addf("spec.clusterIPs has %q, want IP addresses, or None alone", a)
		}
		d.service.Addresses = append(d.service.Addresses, model.Address(a))
	}
}

// name is Kubernetes' DNS-1123 subdomain, and word its label.
var (
	name = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	word = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// faults are the faults of one object.
type faults []string

func (r *faults) addf(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// maxFaults is how many faults of the endpoints of a Service are named: there may be a thousand in each EndpointSlice.
const maxFaults = 10

func (r faults) first() []string {
	if more := len(r) - maxFaults; more > 0 {
		return append(slices.Clone(r[:maxFaults]), fmt.Sprintf("there are %d more faults in its EndpointSlices", more))
	}
	return r
}

func (r *faults) ports(in []corev1.ServicePort) (out []model.Port) {
	names := map[string]bool{}
	for i, p := range in {
		if p.Protocol == corev1.ProtocolSCTP {
			continue
		}
		if p.Port < 1 || p.Port > 65535 {
			r.addf("spec.ports[%d].port is %d, want 1 to 65535", i, p.Port)
		}
		if names[p.Name] {
			r.addf("spec.ports[%d].name is %q, which another port of the Service has", i, p.Name)
		}
		names[p.Name] = true
		port := model.Port{Name: p.Name, Number: uint32(p.Port), Protocol: protocolOf(p)}
		if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != p.Port {
			port.Target = uint32(p.TargetPort.IntVal)
		}
		out = append(out, port)
	}
	return slices.DeleteFunc(out, func(p model.Port) bool { // ports are found by number, and no proxy takes UDP
		return p.Protocol == model.UDP && slices.ContainsFunc(in, func(o corev1.ServicePort) bool {
			return uint32(o.Port) == p.Number && (o.Protocol == corev1.ProtocolTCP || o.Protocol == "")
		})
	})
}

func protocolOf(p corev1.ServicePort) model.Protocol {
	if p.Protocol == corev1.ProtocolUDP {
		return model.UDP
	}
	application := ""
	if p.AppProtocol != nil {
		application = *p.AppProtocol
	}
	return model.DetectProtocol(application, p.Name, uint32(p.Port))
}

func (r *faults) exportTo(text string) []string {
	out := list(text)
	for _, to := range out {
		switch {
		case to == "." || to == "*" || word.MatchString(to):
		case to == "~" && len(out) == 1:
		default:
			r.addf(`metadata.annotations[%s] has %q, want namespaces, ".", "*", or "~" alone, with commas between them`, exportToAnnotation, to)
		}
	}
	return out
}

// list splits a text at its commas, without empty parts.
func list(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
