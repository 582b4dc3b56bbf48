package status

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// explain answers a question about one request; with output=text as people read it. An answer costs a part of a second
// of one processor, so each question waits for the ones before it.
func (p Pages) explain() http.HandlerFunc {
	return p.inTurn(func(w http.ResponseWriter, r *http.Request) {
		question := r.URL.Query()
		text := question.Get("output") == "text"
		question.Del("output")
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
	})
}

// kept is an answer that is made, and not sent yet.
type kept struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (k *kept) WriteHeader(code int)           { k.code = code }
func (k *kept) Write(text []byte) (int, error) { return k.body.Write(text) }
func (k *kept) Unwrap() http.ResponseWriter    { return k.ResponseWriter }

// inTurn makes one answer at a time, once there is a mesh. It is sent when its turn has ended: a caller that does not
// read holds up no other one.
func (p Pages) inTurn(answer http.HandlerFunc) http.HandlerFunc {
	turn := make(chan struct{}, 1) // holds a value while an answer is made
	return func(w http.ResponseWriter, r *http.Request) {
		if p.Mesh() == nil {
			http.Error(w, "there is no mesh yet: see /ready", http.StatusServiceUnavailable)
			return
		}
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		k := &kept{ResponseWriter: w}
		func() {
			defer func() { <-turn }()
			answer(k, r)
		}()
		w.WriteHeader(cmp.Or(k.code, http.StatusOK))
		_, _ = w.Write(k.body.Bytes()) // a caller that left needs no answer
	}
}

// sendTime is how long a caller may take to send what is to be judged.
const sendTime = 10 * time.Second

// validate judges the objects that a caller sends, beside those that are served. As for explain, each caller waits for
// the ones before it, and so does what it sends: the memory for one is used.
func (p Pages) validate() http.HandlerFunc {
	return p.inTurn(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(sendTime)) // a test's writer has none
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, p.MaxSent))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			http.Error(w, fmt.Sprintf("more than %d bytes: want a part of the files", p.MaxSent), http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("read what is to be judged: %v", err), http.StatusBadRequest)
			return
		}
		verdict, err := p.Validate(r.Context(), text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, verdict)
	})
}
