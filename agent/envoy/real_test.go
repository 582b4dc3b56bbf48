package envoy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestRealInFlight(t *testing.T) {
	e := startReal(t)
	expect := func(t *testing.T, want int64) {
		t.Helper()
		err := lab.Eventually(patient, func() error {
			got, err := e.Work(t.Context())
			if err == nil && got.InFlight != want {
				err = fmt.Errorf("%+v, want %d in flight", got, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	get := func(path, headers string) string {
		return "GET " + path + " HTTP/1.1\r\nhost: a\r\n" + headers + "\r\n"
	}
	const upgrade = "connection: upgrade\r\nupgrade: websocket\r\n"
	expect(t, 0)
	for _, test := range []struct {
		name, address string
		requests      []string // each on a connection of its own
		answer        string   // that each gets first, if any
		want          int64
	}{
		{"idle kept connections", e.http, []string{get("/", ""), get("/", "")}, "HTTP/1.1 200 OK", 0},
		{"connections that have asked nothing", e.http, []string{""}, "", 0},
		{"a slow request", e.http, []string{get("/slow", "")}, "", 1},
		{"half a request", e.http, []string{"GET / HTTP/1.1\r\nhost: a\r\n"}, "", 1},
		{"one that waits for a connection to the upstream", e.http, []string{get("/slow", ""), get("/slow", ""), get("/slow", "")}, "", 3},
		{"a websocket", e.http, []string{get("/", upgrade)}, "HTTP/1.1 101", 1},
		{"TCP connections", e.tcp, []string{"", "x"}, "", 2},
		{"a TLS handshake that does not begin", e.tls, []string{""}, "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, request := range test.requests {
				conn, err := net.Dial("tcp", test.address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(30 * time.Second))
				io.WriteString(conn, request)
				if test.answer == "" {
					continue
				}
				if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(line, test.answer) {
					t.Fatalf("answer %q, want %q", line, test.answer)
				}
			}
			e.awaitConnections(t, test.address, len(test.requests))
			expect(t, test.want)
		})
		e.awaitConnections(t, test.address, 0)
		expect(t, 0)
	}
	t.Run("HTTP/2 streams", func(t *testing.T) {
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		warm(t, transport, "http://"+e.http+"/") // so that both streams find a connection
		for range 2 {
			go func() {
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.http+"/slow", nil)
				transport.RoundTrip(request)
			}()
		}
		expect(t, 2)
		e.awaitConnections(t, e.http, 1)
		cancel()
		expect(t, 0)
	})
	t.Run("a request of a drained listener", func(t *testing.T) {
		conn, err := net.Dial("tcp", e.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, get("/slow", ""))
		expect(t, 1)
		if err := e.DrainListeners(t.Context(), Drain{}); err != nil {
			t.Fatal(err)
		}
		err = lab.Eventually(patient, func() error {
			other, err := net.Dial("tcp", e.http)
			if err == nil {
				other.Close()
				return fmt.Errorf("the listener accepts still")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		expect(t, 1)
		conn.Close()
		expect(t, 0)
	})
}

func TestRealCertificates(t *testing.T) {
	e := startReal(t)
	for serial, want := range map[int64]string{0x3e9: "03e9", 0x80: "80"} {
		e.rotate(t, serial)
		err := lab.Eventually(patient, func() error {
			certificates, err := e.Certificates(t.Context())
			if err == nil && (len(certificates) != 1 || certificates[0].Serial != want) {
				err = fmt.Errorf("Certificates: %+v, want one of serial %s", certificates, want)
			}
			if err == nil && !time.Now().Before(certificates[0].NotAfter) {
				err = fmt.Errorf("Certificates: expires %s, want a time to come", certificates[0].NotAfter)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestRealLogIsParsed(t *testing.T) {
	e := startReal(t, "--log-level", "trace", "--log-format", LogFormat)
	conn, err := net.Dial("tcp", e.http)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nhost: a\r\nx-odd: \xff\xc3( \"q\" \\n \t</script>\r\n\r\n")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	e.process.Stop(5 * time.Second)
	log, err := os.ReadFile(e.process.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for line := range bytes.Lines(log) {
		r, ok := parse(line)
		if !ok || r.Time.IsZero() || r.Component == "" || r.Source == "" || r.Thread == "" {
			t.Errorf("parse(%q) = %+v, %v; want all of it", line, r, ok)
		}
		seen = seen || strings.Contains(r.Message, "\uFFFD( \"q\" \\n \t</script>")
	}
	if !seen {
		t.Errorf("the odd header is not in the log of %d bytes as it was sent", len(log))
	}
}
