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
	p := mesh.New(&mesh.Bell{}, func() mesh.Facts { return mesh.Facts{Now: time.Now(), Faults: faults()} }, faults)
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

// A page beyond those that may be open is not live, and is once another one was closed.
func TestOnePageTooMany(t *testing.T) {
	var others []net.Conn
	b, _, fault := openGated(t, func(address string) {
		for {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if _, err := io.WriteString(c, "GET /page/events HTTP/1.1\r\nHost: "+address+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, http.StatusText(http.StatusServiceUnavailable)) {
				return
			}
			others = append(others, c)
		}
	})
	b.await(lab.StopLimit, has("live", "○ not live"))
	_ = others[0].Close()
	fault("a fault meanwhile")
	b.await(lab.StopLimit, has("live", "● live")+" && "+has("alarm-line", "a fault meanwhile"))
}
