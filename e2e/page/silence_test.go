//go:build browser

package page

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mesh "github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// gate is a listener whose connections write nothing while it is shut, and do not end: as a discovery that is stopped, or a tunnel to one that has died.
type gate struct {
	net.Listener
	shut sync.RWMutex
}

type gated struct {
	net.Conn
	at *gate
}

func (g *gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	return gated{c, g}, err
}

func (g gated) Write(text []byte) (int, error) {
	g.at.shut.RLock()
	defer g.at.shut.RUnlock()
	return g.Conn.Write(text)
}

// openGated opens the page of a discovery behind a gate. fault says what is wrong from then on.
func openGated(t *testing.T, before func(address string)) (b *browser, g *gate, fault func(string)) {
	var said []string
	var mu sync.Mutex
	faults := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return said
	}
	p := mesh.New(&mesh.Notifier{}, func() mesh.Facts { return mesh.Facts{Now: time.Now(), Faults: faults()} }, faults)
	server := httptest.NewUnstartedServer(p.Handler())
	g = &gate{Listener: server.Listener}
	server.Listener = g
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	before(server.Listener.Addr().String())
	b = openBrowser(t)
	b.navigate(server.URL + "/")
	b.await(lab.StopLimit, "document.body.dataset.shown")
	return b, g, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = []string{text}
	}
}

// A page that hears nothing any more says so, though no connection ends, and is live again once discovery answers.
func TestSilenceIsNotLive(t *testing.T) {
	b, g, fault := openGated(t, func(string) {})
	b.await(lab.StopLimit, has("live", "● live"))
	g.shut.Lock()
	open := sync.OnceFunc(g.shut.Unlock)
	defer open()
	b.await(lab.StopLimit, has("live", "○ not live"))
	fault("a fault meanwhile")
	open()
	b.await(lab.StopLimit, has("live", "● live")+" && "+has("alarm-line", "a fault meanwhile"))
}

// A page is live whatever number of others is open. One that had to make room for others opens its stream again.
func TestOnePageTooMany(t *testing.T) {
	const crowd = 20 // more than may be open
	var at string
	open := func(address string) {
		at = address
		for range crowd {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if _, err := io.WriteString(c, "GET /page/events HTTP/1.1\r\nHost: "+address+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, http.StatusText(http.StatusOK)) {
				t.Fatalf("a reader gets %q, %v", line, err)
			}
		}
	}
	b, _, fault := openGated(t, open)
	b.await(lab.StopLimit, has("live", "● live"))
	open(at)
	fault("a fault meanwhile")
	b.await(lab.StopLimit, has("live", "● live")+" && "+has("alarm-line", "a fault meanwhile"))
}
