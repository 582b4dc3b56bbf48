package ads

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// Mesh returns the mesh of the newest generation, nil before the first Push.
func (s *Server) Mesh() *model.Mesh {
	if g := s.current.Load(); g != nil {
		return g.Mesh
	}
	return nil
}

// Dump returns the resources that were sent last to a proxy, by type, as JSON. The proxy is named by its node ID, by the name in it, or by
// NAMESPACE/NAME; a name that several have is refused. Of the streams of one, which a lost connection may have left, the newest with a type counts.
func (s *Server) Dump(proxy string) (map[string][]json.RawMessage, error) {
	var sets [content.Kinds]*content.Set
	var since [content.Kinds]time.Time
	named := map[string]bool{}
	for _, st := range s.all() {
		sent, id, ok := st.holds(proxy)
		if !ok {
			continue
		}
		named[strconv.Quote(id)] = true
		for k, set := range sent {
			if set != nil && (sets[k] == nil || st.connected.After(since[k])) {
				sets[k], since[k] = set, st.connected
			}
		}
	}
	switch len(named) {
	case 0:
		return nil, fmt.Errorf("proxy %q is not connected: want a node ID of /debug/adsz, the name in it, or NAMESPACE/NAME", proxy)
	case 1:
		return dump(sets)
	}
	return nil, fmt.Errorf("%d proxies have the name %q: want the node ID of one, %s", len(named), proxy, strings.Join(slices.Sorted(maps.Keys(named)), ", "))
}

// holds returns what was sent to the proxy of the stream, and its node ID, if that is the one that is named.
func (st *stream) holds(proxy string) (sets [content.Kinds]*content.Set, id string, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	parsed, err := node.ParseID(st.node)
	if err != nil || st.session == nil {
		return sets, "", false
	}
	namespace := st.reader.Inbound.Namespace
	if proxy != st.node && proxy != parsed.Name && proxy != namespace+"/"+proxyName(st.node, namespace) {
		return sets, "", false
	}
	return st.session.Sent(), st.node, true
}

func dump(sets [content.Kinds]*content.Set) (map[string][]json.RawMessage, error) {
	out := map[string][]json.RawMessage{}
	for k, s := range sets {
		list := []json.RawMessage{}
		if s != nil {
			for _, r := range s.All() {
				text, err := r.Show(content.Kind(k))
				if err != nil {
					return nil, err
				}
				list = append(list, text)
			}
		}
		out[content.Kind(k).String()] = list
	}
	return out, nil
}
