package traffic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// way sends an exchange to a proxy, and notes what came back.
type way func(e *exchange)

// through sends requests to an outbound HTTP proxy at host:port.
func through(proxy string) way {
	client := &http.Client{Timeout: lab.StopLimit, Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}}
	return func(e *exchange) { e.got, e.closed = e.ask(client) }
}

// direct sends requests, or bytes, each on a connection of its own to host:port.
func direct(address string) way {
	return func(e *exchange) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: lab.StopLimit}).DialContext(ctx, "tcp", address)
			if err == nil {
				e.ends = fmt.Sprintf("%s>%s", c.LocalAddr(), c.RemoteAddr())
			}
			return c, err
		}
		if !e.TCP {
			host, _, _ := strings.Cut(strings.ToLower(e.To), ":")
			e.got, e.closed = e.ask(&http.Client{Timeout: lab.StopLimit, Transport: &http.Transport{
				DisableKeepAlives: true, DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{"http/1.1"}},
			}})
			return
		}
		c, err := dial(context.Background(), "", "")
		if e.closed = err; err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(lab.StopLimit))
		if _, e.closed = io.WriteString(c, "\x00\x01not HTTP\r\n\r\n"); e.closed == nil {
			_, e.closed = c.Read(make([]byte, 1))
		}
	}
}

// ask sends the request of an exchange.
func (e *exchange) ask(client *http.Client) (lab.Answer, error) {
	header := []string{"x-number", fmt.Sprint(e.number)}
	if e.delay > 0 {
		header = append(header, "x-delay", e.delay.String())
	}
	if e.status != 0 {
		header = append(header, "x-status", fmt.Sprint(e.status))
	}
	for _, h := range e.Header {
		name, value, _ := strings.Cut(h, ":")
		header = append(header, name, value)
	}
	return lab.Exchange(client, e.Method, map[bool]string{true: "https", false: "http"}[e.TLS]+"://"+e.To+e.Path, header...)
}

// asked answers questions about the requests of a proxy.
type asked func(explain.Question) (explain.Road, error)

// once asks each question once.
func once(ask asked) asked {
	known := map[string]explain.Road{}
	return func(q explain.Question) (explain.Road, error) {
		key := q.Values().Encode()
		if road, found := known[key]; found {
			return road, nil
		}
		road, err := ask(q)
		known[key] = road
		return road, err
	}
}

// running asks the discovery of the world, which knows its connected proxies.
func (w *world) running(q explain.Question) (road explain.Road, err error) {
	text, err := lab.Get("http://" + w.Discovery.HTTP + "/debug/explain?" + q.Values().Encode())
	if err == nil {
		err = json.Unmarshal([]byte(text), &road)
	}
	return road, err
}

// mustLog reports whether a request with this end is in the access log. Not every listener logs what it closes, or a handshake that fails.
func mustLog(o explain.Outcome) bool { return !o.Closed && !forCertificate(o) }

const atOnce = 16 // requests, of which some wait for slow servers

// compare sends requests to a proxy, and asks explain about each. Every request must end in one of the outcomes, no outcome and no endpoint may be one that
// no request meets, each step of a road must say what made it, and it is an error if fewer than kinds of ends are seen.
func (w *world) compare(p *lab.Proxy, ask asked, by way, all []*exchange, kinds int) {
	t := w.T
	t.Helper()
	began := time.Now()
	w.send(by, all)
	roads := make([]explain.Road, len(all))
	ask = once(ask)
	for i, e := range all {
		var err error
		roads[i], err = ask(e.Question)
		w.Check(err)
	}
	done := w.logged(p, all, roads)
	seen, faults, met := map[string]int{}, 0, tallies{}
	fault := func(format string, args ...any) {
		if faults++; faults <= 10 {
			t.Errorf(format, args...)
		}
	}
	for i, e := range all {
		road, did := roads[i], done[e.key(done)]
		seen[did.kind()]++
		for _, s := range road.Steps {
			if len(s.Origins) == 0 && s.Unmade == "" {
				fault("nobody made the step %s %s of\n%s", s.Kind, s.Name, road.Text())
			}
		}
		if !met.add(e, road, did) {
			fault("TCP %t, TLS %t: %s %s%s at %q %q, an answer of %d after %v: Envoy did %+v, the client had %d or %v, the server got %s of %s; explain says\n%s",
				e.TCP, e.TLS, e.Method, e.To, e.Path, e.Address, e.Header, e.status, e.delay, did, e.got.Status, e.closed, e.got.Echo.Path, e.got.Echo.Host, road.Text())
		}
	}
	for _, wide := range met.tooWide() {
		fault("%s", wide)
	}
	t.Logf("%d requests in %v, of which explain says %d things: %v", len(all), time.Since(began), len(met), slices.Sorted(maps.Keys(seen)))
	if len(seen) < kinds {
		t.Errorf("only %d kinds of ends were seen: %v", len(seen), seen)
	}
}

// send sends requests, some at once, and returns when all have ended.
func (w *world) send(by way, all []*exchange) {
	todo := make(chan *exchange)
	var senders sync.WaitGroup
	for range w.atOnce {
		senders.Go(func() {
			for e := range todo {
				by(e)
			}
		})
	}
	for _, e := range all {
		w.asked++
		e.number = w.asked
		todo <- e
	}
	close(todo)
	senders.Wait()
}

// logged waits until the access log of a proxy has what it did with requests.
func (w *world) logged(p *lab.Proxy, all []*exchange, roads []explain.Road) (done map[string]truth) {
	w.T.Helper()
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		done = truths(p.Log())
		for i, e := range all {
			if _, found := done[e.key(done)]; !found && (e.closed == nil || slices.ContainsFunc(roads[i].Outcomes, mustLog)) {
				return fmt.Errorf("the access log of %d requests lacks %+v of which explain says\n%s", len(all), *e, roads[i].Text())
			}
		}
		return nil
	}))
	return done
}
