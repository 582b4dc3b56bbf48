package sourcetest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Serve starts a fake of a registry with an HTTP interface. It ends with the test, and its clients' connections with
// it.
func Serve(t *testing.T, fake http.Handler) *httptest.Server {
	server := httptest.NewServer(fake)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// Questions counts the requests to a fake, and answers in its place while it is broken. The zero Questions is not
// broken.
type Questions struct {
	mu     sync.Mutex
	asked  map[string]int // by path
	broken func(w http.ResponseWriter, r *http.Request) bool
}

// Asked counts a request.
func (q *Questions) Asked(r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked == nil {
		q.asked = map[string]int{}
	}
	q.asked[r.URL.Path]++
}

// Broken answers a request if the fake is broken, and reports whether it has.
func (q *Questions) Broken(w http.ResponseWriter, r *http.Request) bool {
	q.mu.Lock()
	broken := q.broken
	q.mu.Unlock()
	return broken != nil && broken(w, r)
}

// BreakWith sets a function that answers every request for which it returns true; nil mends the fake.
func (q *Questions) BreakWith(broken func(w http.ResponseWriter, r *http.Request) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broken = broken
}

// Times returns how often a path was requested.
func (q *Questions) Times(path string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asked[path]
}

// Reset mends the fake, and sets its counts to zero.
func (q *Questions) Reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked, q.broken = nil, nil
}
