package status

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// sendTime is how long a caller may take to send what is to be judged.
const sendTime = 10 * time.Second

// validate judges the objects that a caller sends, beside those that are served. As for explain, each caller waits for the ones before it, and so
// does what it sends: the memory for one is used.
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
