package model

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"sort"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// Notes returns the problems of objects that only the whole mesh shows: names that do not exist, policies without
// effect, objects that another object overrides. The notes are in the order of the objects. Each call examines the
// whole mesh; it is not part of a push, so the cost of a push depends on the change only, and the caller decides how
// often to call it. connected are the connected proxies; they need not be endpoints of a service.
func (m *Mesh) Notes(connected ...Proxy) []Note {
	notes, _ := m.NotesAfter(nil, connected...)
	return notes
}

// NotesAfter returns the same as Notes. Of the objects that are in the mesh of last it examines again only those whose notes may
// be others; last may be nil.
func (m *Mesh) NotesAfter(last *Judged, connected ...Proxy) ([]Note, *Judged) {
	if last != nil && !maps.Equal(last.mesh.given.kept, m.given.kept) {
		last = nil // any object may see another one no longer, or again
	}
	j := newJudge(m, connected)
	now := &Judged{mesh: m, objects: make([]*opinion, len(m.objects)), namespaces: j.namespaces, streams: streamsOf(connected)}
	j.since = newSince(last, m, now.namespaces, now.streams)
	unused := m.unused
	for at, o := range m.objects {
		if len(unused) > 0 && unused[0].object == o { // in the same order
			unused = unused[1:]
			continue
		}
		known := j.opinion(at, o)
		if known == nil {
			known = j.opine(o)
			now.looked++
		}
		now.objects[at] = known
		j.notes = append(j.notes, known.notes...)
	}
	now.told = j.ignored()
	j.locals()
	j.foreignBinds()
	j.keptAtHome()
	j.leadToDoors()
	now.proxies = j.aboutProxies(last.verdicts(m))
	j.lentKeys()
	now.examined = j.examined
	looked := len(j.notes)
	now.clashes = j.conflicts()
	j.refused()
	m.locate(j.notes[looked:])
	sort.SliceStable(j.notes, func(x, y int) bool {
		a, b := j.notes[x], j.notes[y]
		return cmp.Or(a.Meta.Older(b.Meta), cmp.Compare(a.Path, b.Path)) < 0
	})
	return bounded(j.notes), now
}

// object adds the notes about one object.
func (j *judge) object(o *Object) {
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		j.virtualService(o.Meta, spec)
		return
	case *networking.DestinationRule:
		j.destinationRule(o.Meta, spec)
		return
	case *networking.ServiceEntry:
		j.serviceEntry(o.Meta, spec)
		return
	case *networking.WorkloadEntry:
		j.localWorkload(o.Meta, spec)
		j.foreignAddress(o.Meta, "spec.address", spec.Address)
		return
	}
	j.fleeting = true // what these ask for is not recorded
	switch spec := o.Spec.(type) {
	case *networking.Sidecar:
		j.sidecar(o.Meta, spec)
	case *networking.Gateway:
		j.gateway(o.Meta, spec)
	case *networking.WorkloadGroup:
		j.template(o)
	case *security.AuthorizationPolicy:
		j.authorizationPolicy(o.Meta, spec)
	case *security.RequestAuthentication:
		j.requestAuthentication(o.Meta, spec)
	case *security.PeerAuthentication:
		j.peerAuthentication(o, spec)
	}
}

// locate sets the current lines of the objects in notes. If only the line of an object changed, With does not update
// the other values made from the object, so these have the old line.
func (m *Mesh) locate(notes []Note) {
	present := func(of Meta) Meta {
		if at, found := place(m.objects, of, func(o *Object) Meta { return o.Meta }); found && m.twins[of.Key()] == 0 {
			return m.objects[at].Meta
		}
		return of
	}
	for i, n := range notes {
		notes[i].Meta, notes[i].Other = present(n.Meta), present(n.Other)
	}
}

// streamsOf returns the numbers of the proxies' streams.
func streamsOf(connected []Proxy) []int64 {
	out := make([]int64, len(connected))
	for i, w := range connected {
		out[i] = w.Stream
	}
	return out
}

// Proxy is a connected proxy: the properties by which objects select it, and the ports that it can open.
type Proxy struct {
	Stream    int64  // number of its stream: with it the other fields are the same but for New, Refused, Unbound and Withheld; 0 for none
	Name      string // of its Pod, or its ID's
	Namespace string
	Labels    map[string]string
	Cluster   string

	New          bool // connected a moment ago: the registry may not have its workload yet
	Gateway      bool
	Proxyless    bool   // a program's own gRPC library
	Binds        bool   // no traffic is intercepted: listeners bind their ports
	HTTPProxy    bool   // programs use an HTTP proxy: services without a loopback address have no listener of their own
	Unprivileged bool   // it cannot open ports below UnprivilegedFrom
	Certificate  bool   // it has one for mutual TLS, and the roots of the mesh
	Keys         bool   // it may have private keys: over TLS those for Account, in plaintext only where the operator allows it
	Account      string // proven by its certificate or token; "" for none
	Own          OwnPorts
	Addresses    []netip.Addr
	Domain       string // DNS domain of its node ID, in lower case; "" for none
	Version      string // as "envoy 1.40.0"; "" if it does not say
	Agent        Agent
	DNS          DNS // what it says about the capture of DNS

	Refused  []Refusal         // the resources that its Envoy rejected
	Unbound  []Unbound         // the listeners that it rejected
	Withheld map[string]string // why it does not get secrets that it requests, by their names
}

// judge collects notes, with the data about the mesh that the checks need.
type judge struct {
	mesh       *Mesh
	domain     Domain // of the mesh
	notes      []Note
	gateways   map[string]bool                                    // by namespace/name
	specs      map[string]*Config[*networking.Gateway]            // the same, but for the mesh
	peers      map[string][]*Config[*security.PeerAuthentication] // by namespace, oldest first
	readers    []map[string]string                                // the selectors of RequestAuthentications
	delegates  map[string]bool                                    // VirtualServices without hosts, by namespace/name
	namespaces map[string]bool                                    // namespaces that contain a service, a workload, an object or a connected proxy
	connected  []Proxy
	inside     map[string][]Proxy   // the same, by namespace
	edge       []Proxy              // those of them that are gateways
	atAddress  map[netip.Addr]Proxy // connected, by address; made when it is asked for
	selected   selected
	similar    similar
	started    bool // the mesh has templates
	since      since
	needed     []need // by the object that is examined
	fleeting   bool   // its notes depend on more than that

	customs        map[string]*customs            // CUSTOM policies by namespace; made when it is asked for
	examined       int                            // how many proxies were
	httpServers    map[httpHost][]httpServer      // made when it is asked for
	endpointLabels map[string][]map[string]string // of endpoints at addresses, by namespace; made when it is asked for

	gatewayHosting map[*Config[*networking.Gateway]]hosting // made when it is asked for
}

func newJudge(m *Mesh, connected []Proxy) *judge {
	j := &judge{
		mesh: m, domain: m.settings.Domain, gateways: map[string]bool{MeshGateway: true},
		specs: map[string]*Config[*networking.Gateway]{}, peers: map[string][]*Config[*security.PeerAuthentication]{}, delegates: map[string]bool{}, inside: map[string][]Proxy{},
		namespaces: map[string]bool{m.settings.RootNamespace(): true},
		connected:  connected, selected: selected{mesh: m, connected: connected}, similar: similar{mesh: m},
	}
	for _, o := range m.used() {
		switch spec := o.Spec.(type) {
		case *networking.Gateway:
			j.gateways[o.Namespace+"/"+o.Name] = true
			j.specs[o.Namespace+"/"+o.Name] = &Config[*networking.Gateway]{o.Meta, spec}
		case *networking.VirtualService:
			if len(spec.Hosts) == 0 {
				j.delegates[o.Namespace+"/"+o.Name] = true
			}
		case *security.RequestAuthentication:
			j.readers = append(j.readers, spec.GetSelector().GetMatchLabels())
		case *security.PeerAuthentication:
			if len(j.peers[o.Namespace]) < maxRivals {
				j.peers[o.Namespace] = append(j.peers[o.Namespace], &Config[*security.PeerAuthentication]{o.Meta, spec})
			}
		}
		_, template := o.Spec.(*networking.WorkloadGroup)
		j.started = j.started || template
		j.namespaces[o.Namespace] = true
	}
	for _, s := range m.services {
		j.namespaces[s.Namespace] = true
	}
	for namespace := range m.workloads {
		j.namespaces[namespace] = true
	}
	for _, w := range connected {
		j.namespaces[w.Namespace] = true
		j.inside[w.Namespace] = append(j.inside[w.Namespace], w)
		if w.Gateway {
			j.edge = append(j.edge, w)
		}
	}
	delete(j.namespaces, "") // of MeshConfig
	return j
}

func (j *judge) note(code Code, meta Meta, path, format string, args ...any) {
	j.notes = append(j.notes, Note{Code: code, Meta: meta, Path: path, Message: fmt.Sprintf(format, args...)})
}

// missing adds a note about a host or a namespace that is not known, or not whole.
func (j *judge) missing(code Code, missing string, meta Meta, path, format string, args ...any) {
	j.notes = append(j.notes, Note{Code: code, Meta: meta, Path: path, Message: fmt.Sprintf(format, args...), Missing: missing})
}

// conflict adds a note that winner is used instead of meta, or instead of a part of it.
func (j *judge) conflict(meta, winner Meta, path, format string, args ...any) {
	j.notes = append(j.notes, Note{Code: Conflict, Meta: meta, Path: path, Message: fmt.Sprintf(format, args...), Other: winner})
}

func name(m Meta) string { return m.Kind + " " + m.Namespace + "/" + m.Name }

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
