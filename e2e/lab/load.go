package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Load sends GET requests from several clients until it is stopped. It implements HTTP/1.1 itself: Go's client would
// silently repeat a request whose kept connection broke, and here every failure counts.
type Load struct {
	address string // host:port to dial
	request []byte
	pace    time.Duration // between two requests of a client
	limit   time.Duration // of a dial, and of an answer, on a machine at rest: see Stopwatch
	watches stopwatches

	stop     chan struct{}
	clients  sync.WaitGroup
	leaving  atomic.Bool
	requests atomic.Int64
	ended    []atomic.Int64 // requests of each client, whatever became of them

	mu       sync.Mutex
	failures []string
	bodies   map[string]int
}

const (
	loadPace     = 5 * time.Millisecond
	loadLimit    = 5 * time.Second
	loadPatience = 30 * time.Second // for a dial, and for an answer, on any machine
)

// StartLoad sends requests for url to address: a server, or a proxy that accepts absolute URLs. kept clients hold their
// connection until the server closes it, fresh ones dial for each request.
func StartLoad(address, url string, kept, fresh int) *Load {
	return StartSlowLoad(address, url, kept, fresh, loadPace)
}

// StartSlowLoad is StartLoad with another pause between two requests of a client, for a test that mostly waits.
func StartSlowLoad(address, url string, kept, fresh int, pace time.Duration) *Load {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err) // the test's own text
	}
	var text bytes.Buffer
	if err := request.WriteProxy(&text); err != nil {
		panic(err)
	}
	l := &Load{address: address, request: text.Bytes(), pace: pace, limit: loadLimit, stop: make(chan struct{}), bodies: map[string]int{}, ended: make([]atomic.Int64, kept+fresh)}
	for i := range kept + fresh {
		l.clients.Go(func() { l.client(i < kept, &l.ended[i]) })
	}
	return l
}

// Leave makes the clients dial no more: each goes on while its connection lasts, and then ends.
func (l *Load) Leave() { l.leaving.Store(true) }

// Requests returns how many requests were answered with 200 until now.
func (l *Load) Requests() int64 { return l.requests.Load() }

// Turn waits until no request is under way that an Envoy has judged by what it had before the call: each client ends the one that it has
// sent, one that a worker may have read together with the news, and a further one.
func (l *Load) Turn() error {
	before := make([]int64, len(l.ended))
	for i := range before {
		before[i] = l.ended[i].Load()
	}
	return Eventually(StopLimit, func() error {
		for i := range before {
			if n := l.ended[i].Load() - before[i]; n < 3 {
				return fmt.Errorf("client %d has ended %d requests, want 3", i, n)
			}
		}
		return nil
	})
}

// Stop ends the load. It returns how many requests were answered with 200, and the errors of the others.
func (l *Load) Stop() (int64, []string) {
	if !l.leaving.Load() {
		close(l.stop)
	}
	l.clients.Wait()
	return l.requests.Load(), l.failures
}

// Unharmed ends a load, and fails the test with each of its failed requests.
func Unharmed(t *testing.T, load *Load) {
	t.Helper()
	requests, failures := load.Stop()
	t.Logf("%d requests, %d failed", requests, len(failures))
	if n := len(failures); n > 0 {
		t.Errorf("%d requests failed, want none; the first: %q", n, failures[:min(n, 3)])
	}
}

// Bodies counts the answers by their body.
func (l *Load) Bodies() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]int, len(l.bodies))
	for body, n := range l.bodies {
		out[body] = n
	}
	return out
}

func (l *Load) client(keep bool, ended *atomic.Int64) {
	var c *connection
	defer func() { c.close() }()
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(l.pace):
		}
		if c == nil && l.leaving.Load() {
			return
		}
		body, closed, err := l.exchange(&c)
		if err != nil || closed || !keep {
			c.close()
			c = nil
		}
		l.record(body, err)
		ended.Add(1)
	}
}

func (l *Load) record(body string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, fmt.Sprintf("%s: %v", time.Now().Format("15:04:05.000"), err))
		return
	}
	l.bodies[body]++
	l.requests.Add(1)
}

// exchange sends one request, over *c or a new connection, and reads its answer.
func (l *Load) exchange(c **connection) (body string, closed bool, err error) {
	if *c == nil {
		watch := l.watches.start()
		conn, err := net.DialTimeout("tcp", l.address, loadPatience)
		if err != nil {
			return "", true, err
		}
		*c = &connection{conn, bufio.NewReader(conn)}
		if err := watch.late(l.limit); err != nil {
			return "", true, fmt.Errorf("the connection %w", err)
		}
	}
	watch := l.watches.start()
	(*c).SetDeadline(time.Now().Add(loadPatience))
	if _, err := (*c).Write(l.request); err != nil {
		return "", true, err
	}
	response, err := http.ReadResponse((*c).reader, nil)
	if err != nil {
		return "", true, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, data)
	}
	if late := watch.late(l.limit); err == nil && late != nil {
		err = fmt.Errorf("the answer %w", late)
	}
	return string(data), response.Close, err
}

type connection struct {
	net.Conn
	reader *bufio.Reader
}

func (c *connection) close() {
	if c != nil {
		c.Close()
	}
}
