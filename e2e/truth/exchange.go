package truth

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Logged are the fields of MeshConfig by which Envoys write the access log that Read reads.
const Logged = `
accessLogFile: /dev/stdout
accessLogFormat: "` + Line + `"
`

// Line is the format of a line of that log.
const Line = `truth %REQ(X-NUMBER)% %DOWNSTREAM_REMOTE_ADDRESS%>%DOWNSTREAM_LOCAL_ADDRESS% %RESPONSE_CODE% %RESPONSE_FLAGS% %UPSTREAM_CLUSTER_RAW% %UPSTREAM_HOST% %UPSTREAM_REQUEST_ATTEMPT_COUNT% %DURATION% %START_TIME(%s%3f)%\n`

// Did is what the real Envoy did with a request or a connection, by its access log.
type Did struct {
	Status            int // 0 of a connection
	flags             []string
	Cluster, Upstream string // "-" for none
	tries             int
	took              time.Duration
	began             time.Time // to the millisecond
}

// Read reads the access log. Its keys are the numbers of requests, and both addresses of connections that are not HTTP: of those with the same
// addresses, since a port was used again, it has the one that began last.
func Read(log string) map[string]Did {
	out := map[string]Did{}
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 10 || fields[0] != "truth" || strings.HasPrefix(strings.ToLower(fields[5]), "inbound") {
			continue // the last is of a call of the workload to itself, as it comes in
		}
		key := fields[1]
		if key == "-" {
			key = fields[2]
		}
		did := Did{Cluster: fields[5], Upstream: fields[6]}
		did.Status, _ = strconv.Atoi(fields[3])
		did.tries, _ = strconv.Atoi(fields[7])
		if ms, err := strconv.Atoi(fields[8]); err == nil {
			did.took = time.Duration(ms) * time.Millisecond
		}
		if ms, err := strconv.ParseInt(fields[9], 10, 64); err == nil {
			did.began = time.UnixMilli(ms)
		}
		if did.began.Before(out[key].began) {
			continue
		}
		if fields[4] != "-" {
			did.flags = strings.Split(fields[4], ",")
		}
		out[key] = did
	}
	return out
}

// Exchange is a request that was sent, and what came back.
type Exchange struct {
	explain.Question
	Number int           // by which the access log names it
	Delay  time.Duration // of the server's answer
	Status int           // of the server's answer; 0 for 200

	Ends   string    // both addresses of the connection
	began  time.Time // the connection
	Got    lab.Answer
	Closed error // why there was no answer

	waited time.Duration // for which a process of the machine waited for a processor or a disk meanwhile
}

// did finds the exchange in the access log.
func (e *Exchange) did(all map[string]Did) (did Did, found bool) {
	if did, found = all[fmt.Sprint(e.Number)]; found {
		return did, true
	}
	if did, found = all[e.Ends]; found && did.began.Before(e.began.Truncate(time.Millisecond)) {
		return Did{}, false // of an earlier connection from the same port
	}
	return did, found
}

// Kind is the kind of what happened.
func (did Did) Kind() string {
	return fmt.Sprint(did.Status, " ", strings.Join(did.flags, ","), " ", did.Cluster)
}

// Flagged reports whether Envoy's flags are the one that an outcome has. Envoy adds URX where it has tried in vain as often as it may, DI where it has
// delayed a request.
func (did Did) Flagged(flag string) bool {
	rest := slices.DeleteFunc(slices.Clone(did.flags), func(f string) bool { return f == "URX" || f == "DI" })
	if flag == "" {
		return len(rest) == 0
	}
	return slices.Equal(rest, []string{flag})
}

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
