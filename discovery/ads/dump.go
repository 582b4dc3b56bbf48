package ads

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// Mesh returns the mesh of the newest generation, nil before the first Push.
func (s *Server) Mesh() *model.Mesh {
	if g := s.current.Load(); g != nil {
		return g.mesh
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

func (st *stream) holds(proxy string) (sets [kinds]*set, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	id, err := node.ParseID(st.node)
	if err != nil || st.protocol == nil || proxy != st.node && proxy != id.Name {
		return sets, false
	}
	for k := range kinds {
		sets[k] = st.protocol.types[k].sent
	}
	return sets, true
}

func dump(sets [kinds]*set) (map[string][]json.RawMessage, error) {
	out := map[string][]json.RawMessage{}
	for k, s := range sets {
		list := []json.RawMessage{}
		if s != nil {
			for _, r := range s.all() {
				text, err := dumpOne(kind(k), r)
				if err != nil {
					return nil, err
				}
				list = append(list, text)
			}
		}
		out[kind(k).String()] = list
	}
	return out, nil
}

func dumpOne(k kind, r *resource) (json.RawMessage, error) {
	if !r.exists() {
		return json.Marshal(map[string]any{"name": r.name, "exists": false})
	}
	if k == sds { // private keys are not shown here
		return json.Marshal(map[string]any{"name": r.name, "version": r.version})
	}
	packed := &anypb.Any{}
	if err := proto.Unmarshal(r.whole(), packed); err != nil {
		return nil, fmt.Errorf("decode %s: %w", r.name, err)
	}
	if k == nds {
		return json.Marshal(shownTable{Type: packed.TypeUrl, Table: decodeNames(string(packed.Value))})
	}
	text, err := protojson.Marshal(packed)
	if err != nil {
		return nil, fmt.Errorf("encode %s as JSON: %w", r.name, err)
	}
	return text, nil
}
