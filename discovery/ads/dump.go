package ads

import (
	"encoding/json"
	"fmt"

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

// Dump returns the resources that were sent last on every stream of a proxy, by type, as JSON. The proxy is named by
// its node ID, or by the name in it.
func (s *Server) Dump(proxy string) (map[string][]json.RawMessage, error) {
	for _, st := range s.all() {
		if sets, ok := st.holds(proxy); ok {
			return dump(sets)
		}
	}
	return nil, fmt.Errorf("proxy %q is not connected: want a node ID of /debug/adsz, or the name in it", proxy)
}

func (st *stream) holds(proxy string) (sets [content.Kinds]*content.Set, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	id, err := node.ParseID(st.node)
	if err != nil || st.session == nil || proxy != st.node && proxy != id.Name {
		return sets, false
	}
	return st.session.Sent(), true
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
