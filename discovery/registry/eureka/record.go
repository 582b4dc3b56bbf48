package eureka

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

// Keys of an instance's metadata for settings without a field in Eureka.
const (
	metaProtocol = "protocol"       // of its plain port: http, http2, grpc, tcp, …
	metaIstio    = "istio.protocol" // the same, as Istio 1.0 reads it
	metaPort     = "service-port"   // that clients dial, if it is not the plain port itself
	metaWeight   = "weight"
	metaRegion   = "region"
	metaZone     = "zone"
	metaSubZone  = "subzone"
	metaAmazon   = "availability-zone" // of dataCenterInfo
)

var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// hostPort is a port of an instance under one of its hosts.
type hostPort struct {
	host     string
	number   uint32 // that clients dial
	own      uint32 // that the instance listens on
	protocol model.Protocol
}

// Suffix is that of the hosts of names without a dot.
const Suffix = "service.eureka"

// Host returns the host of a vipAddress. One with a dot is taken as it is.
func Host(vip string) string {
	vip = strings.ToLower(vip)
	if strings.Contains(vip, ".") {
		return vip
	}
	return vip + "." + Suffix
}

// groupsOf converts all instances to a group for each host, by host.
func groupsOf(r *registry) map[string]model.Group {
	all := make([]record, 0, len(r.records))
	for _, c := range r.records {
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return cmp.Or(strings.Compare(a.app, b.app), strings.Compare(a.id, b.id)) < 0
	})
	hosts := map[string]*hosted{}
	at := func(name string) *hosted {
		if hosts[name] == nil {
			hosts[name] = &hosted{}
		}
		return hosts[name]
	}
	for _, c := range all {
		endpoint, places, faults := c.convert(r.grant)
		if _, lacks := r.lacking[c.key]; lacks {
			faults = append(faults, fmt.Sprintf("Eureka's answers lack it, and do not say that it was removed: it is served until its lease of %s is over", c.lease()))
		}
		for i, f := range faults {
			faults[i] = fmt.Sprintf("instance %s of application %s: %s", c.id, c.app, f)
		}
		for _, name := range c.allHosts() {
			if len(faults) > 0 {
				h := at(name)
				h.faults = append(h.faults, faults...)
			}
		}
		for _, p := range places {
			at(p.host).add(c.key, endpoint, p)
		}
	}
	out := make(map[string]model.Group, len(hosts))
	for name, h := range hosts {
		right, _ := r.grant.Right(name)
		out[name] = h.group(name, right)
	}
	return out
}

// allHosts returns the hosts of the instance. An instance that cannot be read belongs to the hosts that it had before,
// or else to a host named after its application.
func (c record) allHosts() (out []string) {
	if c.fault != "" {
		if len(c.hosts) > 0 {
			return c.hosts
		}
		return []string{Host(c.app)}
	}
	for _, names := range []text{c.instance.VIP, c.instance.SecureVIP} {
		for vip := range parts(names) {
			host, _, _ := strings.Cut(vip, ":")
			if host = Host(host); !slices.Contains(out, host) {
				out = append(out, host)
			}
		}
	}
	if len(out) == 0 {
		out = []string{Host(c.app)}
	}
	return out
}

// parts yields the first names of a vipAddress: each fault of an instance is named at each of its hosts.
func parts(t text) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		n := 0
		for name := range names(t) {
			if n++; n > mostNames || !yield(name) {
				return
			}
		}
	}
}

// names yields all names of a vipAddress.
func names(t text) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(string(t), ",") {
			if name = strings.TrimSpace(name); name != "" && !yield(name) {
				return
			}
		}
	}
}

// convert returns an instance as an endpoint, and the places at which it is served: none, if it cannot be served.
func (c record) convert(grant model.Grant) (e model.Endpoint, places []hostPort, faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if c.fault != "" {
		return e, nil, []string{c.fault}
	}
	i := c.instance
	e = model.Endpoint{Address: cmp.Or(string(i.IPAddr), string(i.Host)), Locality: localityOf(i)}
	if e.Labels = i.labels; i.omitted > 0 {
		wrong("%d entries of its metadata are left out, want at most %d of %d bytes", i.omitted, model.MaxLabels, model.MaxLabel)
	}
	var known bool
	if e.Health, known = healthOf(c.status); !known {
		wrong("status is %q, want UP, DOWN, STARTING, OUT_OF_SERVICE or UNKNOWN: it is not used", c.status)
	}
	if weight := i.meta(metaWeight); weight != "" {
		n, err := strconv.ParseUint(weight, 10, 32)
		if err != nil || n == 0 {
			wrong("metadata %s is %q, want 1 or more: it is taken for 1", metaWeight, weight)
		}
		e.Weight = uint32(n)
	}
	if !servable(e.Address) {
		wrong("ipAddr is %q, want an IP address, or a hostName without it", e.Address)
		return e, nil, faults
	}
	for _, of := range []struct {
		name  string
		value text
	}{{"vipAddress", i.VIP}, {"secureVipAddress", i.SecureVIP}} {
		n := 0
		for range names(of.value) {
			n++
		}
		if n > mostNames {
			wrong("%s has %d names, want at most %d: the others are left out", of.name, n, mostNames)
		}
	}
	places, unplaced := i.places(c.app, grant)
	return e, places, append(faults, unplaced...)
}

func servable(address string) bool {
	if ip, err := netip.ParseAddr(address); err == nil {
		return !ip.IsUnspecified() && ip.Zone() == ""
	}
	return hostName.MatchString(strings.ToLower(address))
}

// places returns the enabled ports of an instance under each of its hosts.
func (i instance) places(app string, grant model.Grant) (out []hostPort, faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	plainNames, secureNames := i.VIP, i.SecureVIP
	if plainNames == "" {
		plainNames = text(app)
	}
	if secureNames == "" {
		secureNames = plainNames
	}
	said := cmp.Or(i.meta(metaProtocol), i.meta(metaIstio))
	plain := model.HTTP
	if said != "" {
		var known bool
		if plain, known = model.ParseProtocol(said); !known {
			wrong("metadata %s is %q, want a protocol such as http, grpc or tcp", metaProtocol, said)
			return nil, faults
		}
	}
	for _, of := range []struct {
		name     string
		port     port
		names    text
		dialled  string
		protocol model.Protocol
	}{{"port", i.Port, plainNames, i.meta(metaPort), plain}, {"securePort", i.SecurePort, secureNames, "", model.HTTPS}} {
		if of.port.Enabled != "true" {
			continue
		}
		own, ok := number(string(of.port.Number))
		if !ok {
			wrong("%s is %q, want 1 to 65535", of.name, of.port.Number)
			continue
		}
		for vip := range parts(of.names) {
			host, dialled, _ := strings.Cut(vip, ":")
			p := hostPort{Host(host), own, own, of.protocol}
			if dialled = cmp.Or(dialled, of.dialled); dialled != "" {
				if p.number, ok = number(dialled); !ok {
					wrong("the port that clients dial is %q, want 1 to 65535", dialled)
					continue
				}
			}
			if !hostName.MatchString(p.host) {
				wrong(`vipAddress is %q, want letters, digits, "-", "_" and "."`, vip)
				continue
			}
			if _, err := grant.Right(p.host); err != nil {
				wrong("vipAddress %q is not served: %v", vip, err)
				continue
			}
			out = append(out, p)
		}
	}
	if len(out)+len(faults) == 0 {
		wrong("neither port nor securePort is enabled")
	}
	return out, faults
}

func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint32(n), err == nil && n > 0
}

// healthOf returns the health of a status. Eureka's own clients use only instances that are UP. An instance that was
// taken out of service by hand finishes its present requests.
func healthOf(status string) (h model.Health, known bool) {
	switch status {
	case "UP":
		return model.HealthHealthy, true
	case "OUT_OF_SERVICE":
		return model.HealthDraining, true
	case "DOWN", "STARTING", "UNKNOWN":
		return model.HealthUnhealthy, true
	}
	return model.HealthUnhealthy, false
}

// labelsOf returns the metadata without the notes of Eureka's encoder, "@class".
func labelsOf(metadata map[string]text) map[string]string {
	var out map[string]string
	for k, v := range metadata {
		if !strings.HasPrefix(k, "@") {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = string(v)
		}
	}
	return out
}

func localityOf(i instance) model.Locality {
	return model.Locality{
		Region: i.meta(metaRegion), Zone: cmp.Or(i.meta(metaZone), string(i.zone)),
		SubZone: i.meta(metaSubZone),
	}
}

// hosted holds the instances and faults of one host.
type hosted struct {
	members []member
	faults  []string
}

// member is an instance with its ports under one host.
type member struct {
	key
	endpoint model.Endpoint
	places   []hostPort
}

func (h *hosted) add(k key, e model.Endpoint, p hostPort) {
	if last := len(h.members) - 1; last >= 0 && h.members[last].key == k {
		h.members[last].places = append(h.members[last].places, p)
		return
	}
	h.members = append(h.members, member{k, e, []hostPort{p}})
}

// group returns the host as a service. Without an instance that can be served the group has only faults.
func (h *hosted) group(host string, right model.Right) model.Group {
	if len(h.members) == 0 {
		return model.Group{Faults: h.faults}
	}
	s := &model.Service{
		Registry: "Eureka", Right: right, Host: host, Namespace: "default", Name: strings.TrimSuffix(host, "."+Suffix),
		Resolution: model.ResolutionStatic, Ports: h.ports(),
	}
	if right == model.RightGuest { // a note may name it
		s.Origin.Record = &model.Record{UID: "instance " + h.members[0].id + " of application " + h.members[0].app}
	}
	for _, m := range h.members {
		if _, err := netip.ParseAddr(m.endpoint.Address); err != nil {
			s.Resolution = model.ResolutionDNS
		}
		m.endpoint.Ports, m.endpoint.Partial = m.listens(s.Ports)
		s.Endpoints = append(s.Endpoints, m.endpoint)
	}
	return model.Group{Services: []*model.Service{s}, Faults: h.faults}
}

// ports returns each number at which clients dial an instance. The first instance with the number sets its protocol.
func (h *hosted) ports() (out []model.Port) {
	for _, m := range h.members {
		for _, p := range m.places {
			at := slices.IndexFunc(out, func(o model.Port) bool { return o.Number == p.number })
			if at < 0 {
				out = append(out, model.Port{
					Name: strings.ToLower(string(p.protocol)) + "-" + strconv.Itoa(int(p.number)), Number: p.number, Protocol: p.protocol,
				})
			} else if out[at].Protocol != p.protocol {
				h.faults = append(h.faults, fmt.Sprintf("instance %s of application %s: port %d speaks %s, and with another instance %s, which is taken",
					m.id, m.app, p.number, p.protocol, out[at].Protocol))
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Number < out[j].Number })
	return out
}

// listens returns the numbers on which an instance listens for the ports of its host: nil if they are the same.
func (m member) listens(ports []model.Port) (own map[string]uint32, partial bool) {
	same := true
	own = map[string]uint32{}
	for _, p := range ports {
		at := slices.IndexFunc(m.places, func(o hostPort) bool { return o.number == p.Number })
		if at >= 0 {
			own[p.Name] = m.places[at].own
		}
		same = same && at >= 0 && m.places[at].own == p.Number
	}
	if same {
		return nil, false
	}
	return own, true
}
