package ads

import (
	"bytes"
	"slices"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Behind returns those of the streams whose client has not accepted a route with a text, of a mesh that has something, with their nodes.
func (s *Server) Behind(streams []int64, text string, has func(*model.Mesh) bool) map[int64]string {
	behind := map[int64]string{}
	for _, st := range s.all() {
		if slices.Contains(streams, st.number) && !st.accepted(text, has) {
			behind[st.number] = st.node
		}
	}
	return behind
}

// accepted reports whether the client asks for a route with the text, has it, and has refused none.
func (st *stream) accepted(text string, has func(*model.Mesh) bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.gone:
		return true // it is not there any more
	case st.session == nil || !has(st.shown.Mesh) || !st.session.Reached():
		return false
	}
	if slices.ContainsFunc(st.session.Describe(), func(t protocol.Type) bool {
		return t.Name == content.RDS.String() && t.State == protocol.StateNacked
	}) {
		return false
	}
	sent := st.session.Sent()[content.RDS]
	return sent != nil && slices.ContainsFunc(sent.All(), func(r *content.Resource) bool { return bytes.Contains(r.Whole(), []byte(text)) })
}
