package status

import (
	"io"
	"net/http"
)

// explain answers a question about one request; with output=text as people read it. An answer costs a part of a second of one processor,
// so each question waits for the ones before it: turn holds a value while an answer is made.
func (p Pages) explain(turn chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		question := r.URL.Query()
		text := question.Get("output") == "text"
		question.Del("output")
		if p.Mesh() == nil {
			http.Error(w, "there is no mesh yet: see /ready", http.StatusServiceUnavailable)
			return
		}
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-turn }()
		road, said, err := p.Explain(question)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case text:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, said) // a caller that left needs no answer
		default:
			writeJSON(w, road)
		}
	}
}
