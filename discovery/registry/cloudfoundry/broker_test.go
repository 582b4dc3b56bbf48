package cloudfoundry

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeBroker implements the part of NATS' protocol that the source needs, without other subscribers. It announces all
// its routes whenever a router starts, as Cloud Foundry's publishers do.
type fakeBroker struct {
	t       *testing.T
	address string
	mu      sync.Mutex
	away    bool
	conns   map[net.Conn]string
	routes  map[string]string // bodies of router.register by name
	good    map[string]string // the bodies that are not malformed
	heard   []string          // published messages: "subject body"
	mute    bool              // it reads, and does not answer
}

func startBroker(t *testing.T) *fakeBroker {
	b := &fakeBroker{t: t, conns: map[net.Conn]string{}, routes: map[string]string{}, good: map[string]string{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.stop()
		running.Wait()
	})
	return b
}

func (b *fakeBroker) url() string { return "nats://" + b.address }

// stop closes every connection, also new ones, until start.
func (b *fakeBroker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = true
	for conn := range b.conns {
		_ = conn.Close()
	}
}

func (b *fakeBroker) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = false
}

// reset removes everything.
func (b *fakeBroker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.heard = false, nil
	clear(b.routes)
	clear(b.good)
}

// serve reads a client's lines until it leaves.
func (b *fakeBroker) serve(conn net.Conn) {
	defer conn.Close()
	defer func() {
		b.mu.Lock()
		delete(b.conns, conn)
		b.mu.Unlock()
	}()
	b.mu.Lock()
	b.conns[conn] = ""
	away := b.away
	b.mu.Unlock()
	if away {
		return
	}
	fmt.Fprintf(conn, "INFO {\"server_id\":\"T\",\"version\":\"2.10.0\",\"proto\":1,\"max_payload\":1048576}\r\n")
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "PING":
			b.mu.Lock()
			if !b.mute {
				fmt.Fprint(conn, "PONG\r\n")
			}
			b.mu.Unlock()
		case "SUB":
			b.mu.Lock()
			b.conns[conn] = words[len(words)-1]
			b.mu.Unlock()
		case "PUB":
			size, _ := strconv.Atoi(words[len(words)-1])
			body := make([]byte, size+2)
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
			b.publish(words[1], string(body[:size]))
		}
	}
}

// publish handles a message that a client publishes.
func (b *fakeBroker) publish(subject, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, subject+" "+body)
	if subject == "router.start" {
		for _, route := range b.routes {
			b.deliver("router.register", "", route)
		}
	}
}

// send publishes a message to the clients.
func (b *fakeBroker) send(subject, reply, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliver(subject, reply, body)
}

func (b *fakeBroker) deliver(subject, reply, body string) {
	if reply != "" {
		reply += " "
	}
	for conn, sid := range b.conns {
		if sid == "" {
			continue // it has not subscribed
		}
		fmt.Fprintf(conn, "MSG %s %s %s%d\r\n%s\r\n", subject, sid, reply, len(body), body)
	}
}

// put announces a route, and from then on whenever a router starts. A new body withdraws the one announced before.
func (b *fakeBroker) put(name, body string, good bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes[name] = body
	b.deliver("router.register", "", body)
	if was := b.good[name]; good && was != "" && was != body {
		b.deliver("router.unregister", "", was)
	}
	if good {
		b.good[name] = body
	}
}

func (b *fakeBroker) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliver("router.unregister", "", b.routes[name])
	delete(b.routes, name)
}

func (b *fakeBroker) said(subject string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.heard {
		if body, ok := strings.CutPrefix(line, subject+" "); ok {
			out = append(out, body)
		}
	}
	return out
}

func (b *fakeBroker) clients() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, sid := range b.conns {
		if sid != "" {
			n++
		}
	}
	return n
}
