package ads

import (
	"fmt"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// identify reads the node of the first request; later ones may leave it out.
func (st *stream) identify(r *protocol.Request) error {
	if r.TypeURL == "" {
		return status.Error(codes.InvalidArgument, "request has no type_url, which an aggregated stream needs")
	}
	if st.identified() {
		return nil
	}
	node, err := r.ParseNode()
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "node: %v", err)
	}
	if asksForObjects(node) {
		return errForObjects
	}
	if node.GetId() == "" {
		return status.Error(codes.InvalidArgument, "the stream's first request has no node.id")
	}
	proxy, err := xds.ParseProxy(node)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	shown := st.hub.current.Load()
	id, err := st.authorize(proxy.Namespace(), shown.Mesh.Settings().TrustDomains())
	if err != nil {
		st.log.Warn("proxy refused", "node", proxy.ID.String(), "peer", st.peer, "err", err)
		return err
	}
	own := content.Reader{View: xds.ViewOf(proxy), Account: id.account}
	owner := id.owner(st.peer)
	if own.Outbound.Locality == (model.Locality{}) {
		st.locality = &workloadLocality{claim: proxy.Claim(id.account), owner: owner}
		own.Outbound.Locality, _ = st.locality.find(shown.Mesh)
	}
	if err := st.enter(owner, own.Outbound.In(shown.Mesh), st.hub.limits.ViewsPerIdentity); err != nil {
		st.log.Warn("proxy refused", "node", proxy.ID.String(), "peer", st.peer, "err", err)
		return err
	}
	st.node, st.reader, st.proven = proxy.ID.String(), own, id
	st.intake.Identified()
	st.version, st.dns, st.agent = versionOf(node), proxy.DNS(), clipped(proxy.Agent())
	st.log.Info("proxy connected", "node", st.node, "peer", st.peer)
	if fault := st.fault(shown); fault != "" {
		st.log.Warn("short names of services do not work for a proxy", "node", st.node, "peer", st.peer, "reason", fault)
	}
	return nil
}

// fault returns the fault of the proxy's node, "" for none.
func (st *stream) fault(g *generation) string {
	return protocol.Clip(st.reader.DomainFault(g.Mesh.Settings().Domain))
}

// enter counts the stream as one of a view, unless an identity has limit others already; 0 for no limit.
func (st *stream) enter(owner string, view xds.Outbound, limit int) error {
	if err := st.hub.viewLimiter.enter(owner, view, limit); err != nil {
		return err
	}
	st.leaves = func() { st.hub.viewLimiter.leave(owner, view) }
	return nil
}

// refuse leaves a request for a type without an answer: the other types of the stream must go on. If the stream carries
// no other type, the reason ends it.
func (st *stream) refuse(typeURL string, reason error) error {
	if st.only != aggregated && reason != nil {
		return reason
	}
	if st.unknown[typeURL] || len(st.unknown) == maxUnknownTypes {
		return nil
	}
	if st.unknown == nil {
		st.unknown = map[string]bool{}
	}
	st.unknown[typeURL] = true
	st.log.Info("type is not served", "node", st.node, "type_url", typeURL, "reason", reason)
	return nil
}

// versionOf returns the version that a client reports, such as "envoy 1.40.0".
func versionOf(n *corev3.Node) string {
	if v := n.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return protocol.Clip(fmt.Sprintf("%s %d.%d.%d", n.GetUserAgentName(), v.MajorNumber, v.MinorNumber, v.Patch))
	}
	return protocol.Clip(strings.TrimSpace(n.GetUserAgentName() + " " + n.GetUserAgentVersion()))
}

// clipped returns what an agent says as it is kept: it is a client's text.
func clipped(a model.Agent) model.Agent {
	return model.Agent{Version: protocol.Clip(a.Version), Bypassed: protocol.Clip(a.Bypassed)}
}

// relocate gives the stream the view of the locality that its proxy has in the newest mesh. The view counts for the
// proxy's identity, but is never refused: the proxy does not choose it.
func (st *stream) relocate() {
	if st.locality == nil {
		return
	}
	now, looked := st.locality.find(st.shown.Mesh)
	was := st.reader.Outbound.Locality
	if !looked || now == was {
		return
	}
	st.reader.Outbound.Locality = now
	leave := st.leaves
	_ = st.enter(st.locality.owner, st.reader.Outbound.In(st.shown.Mesh), 0)
	leave()
	st.log.Info("proxy's locality changed", "node", st.node, "from", was.String(), "to", now.String(), "source", st.locality.source())
}

// workloadLocality finds the locality of a proxy whose node sends none: that of its own workload, which may come later,
// and move.
type workloadLocality struct {
	claim     model.Claim
	owner     string           // in viewLimiter
	residents *model.Residents // as they were looked up last
}

// find returns the locality in a mesh. It returns false if it cannot be another one than at the last call.
func (p *workloadLocality) find(m *model.Mesh) (model.Locality, bool) {
	now := m.Residents(p.claim.Namespace)
	if now == p.residents {
		return model.Locality{}, false
	}
	p.residents = now
	found, _ := now.Whereabouts(p.claim)
	return found, true
}

// source returns where the locality comes from, or why there is none; for no workload locality, the node.
func (p *workloadLocality) source() string {
	if p == nil {
		return "node"
	}
	_, source := p.residents.Whereabouts(p.claim)
	return source
}

// viewLimiter limits how many different views the streams of one identity may need.
type viewLimiter struct {
	mu    sync.Mutex
	views map[string]map[xds.Outbound]int // streams, by identity, then view
}

// enter counts a stream. A view that the identity has already is always allowed.
func (v *viewLimiter) enter(owner string, view xds.Outbound, limit int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	own := v.views[owner]
	if _, known := own[view]; !known && limit > 0 && len(own) >= limit {
		return status.Errorf(codes.ResourceExhausted,
			"%s has %d different views already, by namespace, labels, locality and others of its nodes: at most --maxViewsPerIdentity", owner, len(own))
	}
	if own == nil {
		own = map[xds.Outbound]int{}
		if v.views == nil {
			v.views = map[string]map[xds.Outbound]int{}
		}
		v.views[owner] = own
	}
	own[view]++
	return nil
}

// leave removes a stream that enter counted. The view is kept until forget, and still counts until then.
func (v *viewLimiter) leave(owner string, view xds.Outbound) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.views[owner][view]--
}

// forget drops the views that no stream has.
func (v *viewLimiter) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for owner, own := range v.views {
		for view, streams := range own {
			if streams == 0 {
				delete(own, view)
			}
		}
		if len(own) == 0 {
			delete(v.views, owner)
		}
	}
}
