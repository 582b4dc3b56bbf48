package envoy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Admin is a client of one epoch's admin. It keeps no connection: a kept one would stay with a parent that has handed
// over.
type Admin struct {
	Socket string // Unix socket
	Spare  *Spare // nil for none

	// inode is the socket's, once it was reached. It leads there also after its path was removed, as by a cleaner of /run, and is closed with
	// the Admin by the garbage collector, so that no dial has another file under its number.
	inode atomic.Pointer[os.File]

	read     atomic.Int32 // requests of others that Envoy has not answered yet
	answered atomic.Bool  // one was since the last observation
}

// NewAdmin returns a client of the admin at a Unix socket.
func NewAdmin(socket string) *Admin { return &Admin{Socket: socket} }

const (
	adminTimeout  = 2 * time.Second // Envoy's main thread answers in milliseconds unless it is busy or frozen
	longestHeader = 64 << 10
	longestBody   = 8 << 20 // bytes; Envoy has 0.2 MB for /server_info, a few for statistics of 1,000 listeners
)

// Transport sends any request of others to the admin, and ignores its host.
func (a *Admin) Transport() http.RoundTripper {
	return counting{a, &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx) },
	}}
}

// counting counts the requests for whose answers it waits.
type counting struct {
	of *Admin
	http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.of.read.Add(1)
	defer c.of.read.Add(-1)
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.of.answered.Store(true)
	}
	return response, err
}

func (a *Admin) dial(ctx context.Context) (conn net.Conn, err error) {
	err = a.Spare.lend(func() (err error) {
		var d net.Dialer
		inode, path := a.inode.Load(), a.Socket
		if inode != nil {
			path = "/proc/self/fd/" + strconv.Itoa(int(inode.Fd()))
		}
		conn, err = d.DialContext(ctx, "unix", path)
		if err == nil && inode == nil {
			a.hold()
		}
		return err
	})
	return conn, err
}

// hold keeps the socket's inode. Where no descriptor is left, the next connection does.
func (a *Admin) hold() {
	fd, err := unix.Open(a.Socket, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	if file := os.NewFile(uintptr(fd), a.Socket); !a.inode.CompareAndSwap(nil, file) {
		file.Close()
	}
}

// errNotReady is the error of Ready while Envoy answers, but does not serve.
var errNotReady = errors.New("not ready")

// Ready returns nil while Envoy serves: its /ready is 200 only in state LIVE.
func (a *Admin) Ready(ctx context.Context) error {
	status, state, err := a.ask(ctx, http.MethodGet, "/ready")
	if err == nil && status != http.StatusOK {
		return fmt.Errorf("%w: %.64s", errNotReady, state)
	}
	return err
}

// get returns the body of an answer 200. Any other status is an error that contains it.
func (a *Admin) get(ctx context.Context, path string) ([]byte, error) {
	return a.ok(ctx, http.MethodGet, path)
}

// post is like get, for a path that changes something: Envoy refuses a GET of such a path.
func (a *Admin) post(ctx context.Context, path string) error {
	_, err := a.ok(ctx, http.MethodPost, path)
	return err
}

func (a *Admin) ok(ctx context.Context, method, path string) ([]byte, error) {
	status, body, err := a.ask(ctx, method, path)
	if err == nil && status != http.StatusOK {
		return nil, fmt.Errorf("ask Envoy's admin: %s %s: status %d: %.200s", method, path, status, body)
	}
	return body, err
}

// ask sends one request on a new connection. It writes the request itself: net/http's client takes a quarter to a half
// longer, and 10 KB more, for goroutines and a pool of connections that are not needed here (BenchmarkProbe).
func (a *Admin) ask(ctx context.Context, method, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	conn, err := a.dial(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("ask Envoy's admin: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	status, body, err = exchange(conn, method, path)
	if err != nil {
		return 0, nil, fmt.Errorf("ask Envoy's admin: %s %s: %w", method, path, err)
	}
	return status, body, nil
}

func exchange(conn net.Conn, method, path string) (status int, body []byte, err error) {
	request := method + " " + path + " HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, nil, err
	}
	// net/http does not bound a header: one without end would fill the memory.
	limited := &io.LimitedReader{R: conn, N: longestHeader}
	response, err := http.ReadResponse(bufio.NewReaderSize(limited, 1024), nil)
	if err != nil && limited.N <= 0 {
		err = fmt.Errorf("header is longer than %d bytes", longestHeader)
	}
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	limited.N = longestBody * 2 // with the framing of chunks
	body, err = io.ReadAll(io.LimitReader(response.Body, longestBody+1))
	if err == nil && len(body) > longestBody || err != nil && limited.N <= 0 {
		err = fmt.Errorf("answer is longer than %d bytes", longestBody)
	}
	return response.StatusCode, body, err
}

// Drain describes how Envoy is to close its listeners. The zero value closes all of them at once: requests in flight
// are answered, and each answer closes its connection.
type Drain struct {
	InboundOnly bool // those with traffic_direction INBOUND
	Graceful    bool // go on accepting for --drain-time-s, close each connection with its answer, then close the listeners
	SkipExit    bool // with Graceful: never close
}

// DrainListeners starts a drain. Envoy's state stays LIVE and the process stays.
func (a *Admin) DrainListeners(ctx context.Context, d Drain) error { return a.post(ctx, d.path()) }

func (d Drain) path() string {
	path, separator := "/drain_listeners", "?"
	for _, option := range []struct {
		on   bool
		name string
	}{{d.InboundOnly, "inboundonly"}, {d.Graceful, "graceful"}, {d.SkipExit, "skip_exit"}} {
		if option.on {
			path += separator + option.name
			separator = "&"
		}
	}
	return path
}
