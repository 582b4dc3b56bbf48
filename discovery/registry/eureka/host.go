package eureka

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
