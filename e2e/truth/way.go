package truth

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Way sends an exchange to a proxy, and notes what came back.
type Way func(e *Exchange)

// AtOnce is how many exchanges are under way unless a test says otherwise: some wait for slow servers.
const AtOnce = 16

// Through sends requests to an outbound HTTP proxy at host:port.
func Through(proxy string) Way {
	client := &http.Client{Timeout: lab.StopLimit, Transport: &http.Transport{MaxIdleConnsPerHost: AtOnce, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}}
	return func(e *Exchange) { e.Got, e.Closed = e.ask(client) }
}

// Direct sends requests, or bytes, each on a connection of its own to host:port.
func Direct(address string) Way {
	return Dialling(func() (net.Conn, error) { return net.DialTimeout("tcp", address, lab.StopLimit) })
}

// Dialling sends requests, or bytes, each on a connection of its own.
func Dialling(connect func() (net.Conn, error)) Way {
	return func(e *Exchange) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			e.began = time.Now()
			c, err := connect()
			if err == nil {
				e.Ends = fmt.Sprintf("%s>%s", c.LocalAddr(), c.RemoteAddr())
			}
			return c, err
		}
		if !e.TCP {
			host, _, _ := strings.Cut(strings.ToLower(e.To), ":")
			e.Got, e.Closed = e.ask(&http.Client{Timeout: lab.StopLimit, Transport: &http.Transport{
				DisableKeepAlives: true, DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{"http/1.1"}},
			}})
			return
		}
		c, err := dial(context.Background(), "", "")
		if e.Closed = err; err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(lab.StopLimit))
		if _, e.Closed = io.WriteString(c, "\x00\x01not HTTP\r\n\r\n"); e.Closed == nil {
			e.Got.Status, e.Closed = answered(c)
		}
	}
}

// answered reads the begin of what comes back for bytes, and returns the status if that is an answer of HTTP, else 0.
func answered(c io.Reader) (status int, err error) {
	head := make([]byte, len("HTTP/1.1 400"))
	if _, err := io.ReadFull(c, head[:1]); err != nil || head[0] != 'H' {
		return 0, err
	}
	if _, err := io.ReadFull(c, head[1:]); err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(string(head), "HTTP/1.1 %d", &status)
	return status, err
}

// ask sends the request of an exchange.
func (e *Exchange) ask(client *http.Client) (lab.Answer, error) {
	header := []string{"x-number", fmt.Sprint(e.Number)}
	if e.Delay > 0 {
		header = append(header, "x-delay", e.Delay.String())
	}
	if e.Status != 0 {
		header = append(header, "x-status", fmt.Sprint(e.Status))
	}
	for _, h := range e.Header {
		name, value, _ := strings.Cut(h, ":")
		header = append(header, name, value)
	}
	return lab.Exchange(client, e.Method, map[bool]string{true: "https", false: "http"}[e.TLS]+"://"+e.To+e.Path, header...)
}

// send sends exchanges, some at once, and returns when all have ended.
func send(by Way, atOnce int, all []*Exchange) {
	todo := make(chan *Exchange)
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for e := range todo {
				watch := lab.StartStopwatch()
				by(e)
				e.waited = watch.Waited()
			}
		})
	}
	for _, e := range all {
		todo <- e
	}
	close(todo)
	senders.Wait()
}
