package consul

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Keys of an instance's meta, or of its node's, for settings without a field in Consul.
const (
	metaProtocol = "protocol"     // of its port: http, http2, grpc, tcp, …
	metaPort     = "service-port" // that clients dial, if it is not the instance's own
	metaRegion   = "region"       // of the node
	metaZone     = "zone"
	metaSubZone  = "subzone"
)

// servers is the service under which Consul registers its own servers.
const servers = "consul"

var (
	hostName    = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)
	defaultSpot = "default" // name of Consul's default namespace, and of the namespace in the mesh for it
)

// instance is an entry of a service that can be served.
type instance struct {
	*serviceEntry
	endpoint model.Endpoint
	ports    []port
}

// port is one of an instance.
type port struct {
	name     string // its name in Consul, "" for none
	number   uint32 // that clients dial
	own      uint32 // that the instance listens on
	protocol model.Protocol
}

// Domain is the DNS domain of a Consul, unless it is configured.
const Domain = "consul"

// spot is where the services of a Consul are in the mesh.
type spot struct {
	namespace string   // of Consul, "" for the default one
	domains   []string // DNS domains of Consul
}

// host returns the host of a service in a domain. The default namespace is not a part of it.
func (s spot) host(name, domain string) string {
	host := strings.ToLower(name) + ".service"
	if s.namespace != "" && s.namespace != defaultSpot {
		host += "." + strings.ToLower(s.namespace) + ".ns"
	}
	return host + "." + domain
}

// right returns the right to the hosts of a domain: Consul's own is nobody else's.
func right(domain string) model.Right {
	if domain == Domain {
		return model.RightSuffix
	}
	return model.RightGuest
}

// groupOf converts a service and all its instances, to a service in each domain. A service without instances that can be served becomes an empty
// group, or a group of faults.
func groupOf(at spot, name string, entries []*serviceEntry) model.Group {
	if !hostName.MatchString(strings.ToLower(name)) {
		return model.Group{Faults: []string{fmt.Sprintf(`name is %q, want letters, digits, "-", "_" and "."`, name)}}
	}
	service := &model.Service{
		Registry: "Consul", Namespace: cmp.Or(at.namespace, defaultSpot), Name: name, Resolution: model.ResolutionStatic,
	}
	var instances []instance
	var faults []string
	for _, e := range inOrder(entries) {
		i, wrong := instanceOf(e)
		for _, fault := range wrong {
			faults = append(faults, fmt.Sprintf("instance %s of node %s: %s", e.Service.ID, e.Node.Node, fault))
		}
		if i == nil {
			continue
		}
		instances = append(instances, *i)
		service.Cluster = e.Node.Datacenter
		if _, err := netip.ParseAddr(i.endpoint.Address); err != nil {
			service.Resolution = model.ResolutionDNS
		}
	}
	if len(instances) == 0 {
		return model.Group{Faults: faults}
	}
	service.Origin.Record = &model.Record{Cluster: service.Cluster}
	service.Ports, faults = portsOf(instances, faults)
	if a, b := numbersOf(instances); a != b {
		service.Ignored = append(service.Ignored, fmt.Sprintf("meta %s is missing, and instances have ports of their own, such as %d and %d: clients that dial one of them "+
			"reach the instances with this port only; want the meta with the port that clients dial", metaPort, a, b))
	}
	for _, i := range instances {
		if i.Service.Connect != nil && i.Service.Connect.Native {
			service.Ignored = append(service.Ignored, "connect.native is true for instance "+i.Service.ID+": it may want the mutual TLS of Consul's mesh, and gets plain text")
			break
		}
	}
	for _, i := range instances {
		i.endpoint.Ports, i.endpoint.Partial = i.listens(service.Ports)
		service.Endpoints = append(service.Endpoints, i.endpoint)
	}
	group := model.Group{Faults: faults}
	for _, domain := range at.domains {
		in := *service
		in.Host, in.Right = at.host(name, domain), right(domain)
		group.Services = append(group.Services, &in)
	}
	return group
}

// inOrder returns the entries without proxies and gateways of Consul's mesh, ordered by node and id.
func inOrder(entries []*serviceEntry) (out []*serviceEntry) {
	for _, e := range entries {
		if e != nil && e.Node != nil && e.Service != nil && e.Service.Kind == "" {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *serviceEntry) int {
		return cmp.Or(strings.Compare(a.Node.Node, b.Node.Node), strings.Compare(a.Service.ID, b.Service.ID))
	})
	return out
}

// instanceOf returns nil for an instance that cannot be served.
func instanceOf(e *serviceEntry) (*instance, []string) {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	address := cmp.Or(e.Service.Address, e.Node.Address)
	if !servable(address) {
		wrong("address is %q, want an IP address or a host name", address)
	}
	ports, badPorts := ownPorts(e)
	faults = append(faults, badPorts...)
	if len(faults) > 0 {
		return nil, faults
	}
	health, weight, fault := healthOf(e)
	if fault != "" {
		wrong("%s", fault)
	}
	labels, omitted := model.BoundLabels(labelsOf(e.Service))
	if omitted > 0 {
		wrong("%d of its tags and entries of meta are left out, want at most %d of %d bytes", omitted, model.MaxLabels, model.MaxLabel)
	}
	return &instance{e, model.Endpoint{
		Address: address, Labels: labels, Weight: weight, Locality: localityOf(e), Cluster: e.Node.Datacenter, Health: health,
	}, ports}, faults
}

// servable reports whether clients can dial an address. An unspecified address cannot be dialled.
func servable(address string) bool {
	if ip, err := netip.ParseAddr(address); err == nil {
		return !ip.IsUnspecified() && ip.Zone() == ""
	}
	return hostName.MatchString(strings.ToLower(address))
}

// ownPorts reads the ports of an instance: several with names, or one without a name.
func ownPorts(e *serviceEntry) (out []port, faults []string) {
	all := e.Service.Ports
	if len(all) == 0 {
		all = []servicePort{{Port: e.Service.Port}}
	}
	dialled := e.Service.Meta[metaPort]
	for _, p := range all {
		if p.Port < 1 || p.Port > 65535 {
			faults = append(faults, fmt.Sprintf("port is %d, want 1 to 65535", p.Port))
			continue
		}
		own := port{name: p.Name, number: uint32(p.Port), own: uint32(p.Port)}
		if dialled != "" && len(all) == 1 {
			n, err := strconv.ParseUint(dialled, 10, 16)
			if err != nil || n == 0 {
				faults = append(faults, fmt.Sprintf("meta %s is %q, want 1 to 65535", metaPort, dialled))
				continue
			}
			own.number = uint32(n)
		}
		said := cmp.Or(e.Service.Meta[metaProtocol], e.Node.Meta[metaProtocol])
		if p.Name != "" {
			said = "" // the protocol follows from their names
		}
		if _, known := model.ParseProtocol(said); said != "" && !known {
			faults = append(faults, fmt.Sprintf("meta %s is %q, want a protocol such as http, grpc or tcp", metaProtocol, said))
			continue
		}
		own.protocol = model.DetectProtocol(said, p.Name, own.number)
		out = append(out, own)
	}
	return out, faults
}

// portsOf returns the ports of a service: each number at which clients dial an instance. The first instance with the
// number sets its protocol.
func portsOf(instances []instance, faults []string) ([]model.Port, []string) {
	var out []model.Port
	for _, i := range instances {
		for _, p := range i.ports {
			at := slices.IndexFunc(out, func(o model.Port) bool { return o.Number == p.number })
			if at < 0 {
				out = append(out, model.Port{
					Name: strings.ToLower(cmp.Or(p.name, string(p.protocol), "port")) + "-" + strconv.Itoa(int(p.number)), Number: p.number, Protocol: p.protocol,
				})
			} else if out[at].Protocol != p.protocol {
				faults = append(faults, fmt.Sprintf("instance %s of node %s: port %d speaks %s, and with another instance %s, which is taken",
					i.Service.ID, i.Node.Node, p.number, cmp.Or(p.protocol, "an unknown protocol"), cmp.Or(out[at].Protocol, "an unknown protocol")))
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Number < out[j].Number })
	return out, faults
}

// numbersOf returns the lowest and the highest number of instances that have one port, without a name, and the protocol of
// the first such one: they are the same where clients dial one number.
func numbersOf(instances []instance) (lowest, highest uint32) {
	var protocol model.Protocol
	for _, i := range instances {
		if len(i.ports) != 1 || i.ports[0].name != "" || lowest != 0 && i.ports[0].protocol != protocol {
			continue
		}
		n := i.ports[0].number
		protocol = i.ports[0].protocol
		if lowest == 0 || n < lowest {
			lowest = n
		}
		highest = max(highest, n)
	}
	return lowest, highest
}

// listens returns the numbers on which an instance listens for the ports of its service: nil if they are the same.
func (i instance) listens(ports []model.Port) (own map[string]uint32, partial bool) {
	same := len(i.ports) == len(ports)
	own = map[string]uint32{}
	for _, p := range ports {
		if at := slices.IndexFunc(i.ports, func(o port) bool { return o.number == p.Number }); at >= 0 {
			own[p.Name] = i.ports[at].own
			same = same && i.ports[at].own == p.Number
		} else {
			same = false
		}
	}
	if same {
		return nil, false
	}
	return own, true
}

// healthOf returns the health and the weight of an instance. In maintenance an instance gets no new requests.
func healthOf(e *serviceEntry) (h model.Health, weight uint32, fault string) {
	passing, warning := uint32(max(0, e.Service.Weights.Passing)), uint32(max(0, e.Service.Weights.Warning))
	if len(e.Checks) == 0 {
		return model.HealthUnknown, passing, ""
	}
	switch status := e.Checks.status(); status {
	case statusPassing:
		return model.HealthHealthy, passing, ""
	case statusWarning:
		if warning == 0 {
			return model.HealthDraining, passing, ""
		}
		return model.HealthHealthy, warning, ""
	case statusMaintenance:
		return model.HealthDraining, passing, ""
	case statusCritical:
		return model.HealthUnhealthy, passing, ""
	default:
		for _, c := range e.Checks {
			if c != nil && !slices.Contains([]string{statusPassing, statusWarning, statusCritical}, c.Status) {
				fault = fmt.Sprintf("check %s is %q, want passing, warning or critical", c.CheckID, c.Status)
			}
		}
		return model.HealthUnhealthy, passing, fault
	}
}

// labelsOf returns tags and meta as labels: a tag "k=v" or "k|v" is k: v, any other is "true". Meta wins over tags.
func labelsOf(s *agentService) map[string]string {
	labels := map[string]string{}
	for _, tag := range s.Tags {
		key, value := tag, "true"
		if at := strings.IndexAny(tag, "=|"); at > 0 {
			key, value = tag[:at], tag[at+1:]
		}
		if key != "" {
			labels[key] = value
		}
	}
	for key, value := range s.Meta {
		labels[key] = value
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// localityOf returns the locality from Consul's own field, else from the node's meta, else the datacentre as a region.
func localityOf(e *serviceEntry) model.Locality {
	for _, l := range []*locality{e.Service.Locality, e.Node.Locality} {
		if l != nil && l.Region != "" {
			return model.Locality{Region: l.Region, Zone: l.Zone, SubZone: e.Node.Meta[metaSubZone]}
		}
	}
	meta := e.Node.Meta
	return model.Locality{Region: cmp.Or(meta[metaRegion], e.Node.Datacenter), Zone: meta[metaZone], SubZone: meta[metaSubZone]}
}

// The parts of Consul's answers that are read, by the names of its HTTP API. Others are skipped as the answer is read.

// serviceEntry is an instance with its node and its checks.
type serviceEntry struct {
	Node    *nodeEntry
	Service *agentService
	Checks  healthChecks
}

type nodeEntry struct {
	Node       string
	Address    string
	Datacenter string
	Meta       map[string]string
	Locality   *locality
}

type agentService struct {
	Kind        string
	ID          string
	Service     string
	Tags        []string
	Meta        map[string]string
	Port        int
	Ports       []servicePort // of later versions; none for the one in Port
	Address     string
	Weights     agentWeights
	ModifyIndex uint64
	Locality    *locality
	Connect     *struct{ Native bool }
}

type servicePort struct {
	Name    string
	Port    int
	Default bool
}

type agentWeights struct{ Passing, Warning int }

type locality struct{ Region, Zone string }

type healthCheck struct {
	Node        string
	CheckID     string
	Status      string
	ServiceID   string
	ServiceName string
}

type healthChecks []*healthCheck

// Words of Consul.
const (
	statusPassing     = "passing"
	statusWarning     = "warning"
	statusCritical    = "critical"
	statusMaintenance = "maintenance" // of all checks together

	kindProxy = "connect-proxy"
)

// Checks with these ids take a node, or an instance, out of service.
const (
	nodeMaintenance    = "_node_maintenance"
	serviceMaintenance = "_service_maintenance:"
)

// status returns the status of all checks: maintenance, else the worst one; "" if one of them is not known.
func (h healthChecks) status() string {
	found := statusPassing
	maintained := false
	for _, c := range h {
		switch {
		case c == nil:
		case c.CheckID == nodeMaintenance || strings.HasPrefix(c.CheckID, serviceMaintenance):
			maintained = true
		case !slices.Contains([]string{statusPassing, statusWarning, statusCritical}, c.Status):
			return ""
		case c.Status == statusCritical || c.Status == statusWarning && found == statusPassing:
			found = c.Status
		}
	}
	if maintained {
		return statusMaintenance
	}
	return found
}
