package envoy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// For each reason why discovery cannot be reached, the agent names a remedy.
func TestDiagnose(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	secure := httptest.NewUnstartedServer(hello)
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert} // as discovery does
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(hello)
	defer plain.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
	for _, test := range []struct {
		name string
		Discovery
		want []string
	}{
		{"plain text to TLS", Discovery{"127.0.0.1", port(secure.Listener.Addr()), false, ""}, []string{"speaks TLS and is asked in plain text", "--controlPlaneAuthPolicy MUTUAL_TLS"}},
		{"TLS to plain text", Discovery{"127.0.0.1", port(plain.Listener.Addr()), true, "x"}, []string{"does not speak TLS", "--controlPlaneAuthPolicy NONE"}},
		{
			"another identity",
			Discovery{"127.0.0.1", port(secure.Listener.Addr()), true, "spiffe://a/b"},
			[]string{"127.0.0.1:", "shows a certificate of example.com", "want spiffe://a/b", "--pilotIdentity"},
		},
		{"its identity", Discovery{"127.0.0.1", port(secure.Listener.Addr()), true, "example.com"}, nil},
		{"nobody listens", Discovery{"127.0.0.1", port(gone.Addr()), false, ""}, []string{"connections to discovery at 127.0.0.1:", "refused", "is it running there?"}},
		{"no address", Discovery{"no-such-name.invalid", 1, false, ""}, []string{"no-such-name.invalid has no address", "--discoveryAddress"}},
	} {
		got := test.Diagnose(t.Context())
		if (got == "") != (test.want == nil) {
			t.Errorf("%s: %q", test.name, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q in it", test.name, got, want)
			}
		}
	}
}

// A diagnosis of a discovery that is mute ends with the Envoy for which it is made: the next Envoy starts when the exit is reported, and
// that waits for it.
func TestDiagnosisEndsWithItsEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		mute, conn := net.Pipe()
		defer mute.Close()
		go io.Copy(io.Discard, mute)
		began, ended := time.Now(), make(chan time.Duration)
		go func() {
			Discovery{Host: "127.0.0.1", Port: 1}.answersTLS(ctx, conn)
			ended <- time.Since(began)
		}()
		synctest.Wait()
		cancel()
		if took := <-ended; took != 0 {
			t.Errorf("it ends %v after its Envoy", took)
		}
	})
}

// A stream that is open has not ended.
func TestLinkOf(t *testing.T) {
	for _, test := range []struct {
		name          string
		total, active int64
		want          int64
	}{
		{"none", 0, 0, 0},
		{"one is open", 1, 1, 0},
		{"two have ended, one is open", 3, 1, 2},
		{"two have ended", 2, 0, 2},
	} {
		got := linkOf(map[string]int64{
			discoveryCluster + "membership_total": 1, discoveryCluster + "upstream_cx_active": 1,
			discoveryCluster + "upstream_rq_total": test.total, discoveryCluster + "upstream_rq_active": test.active,
		})
		if want := (health.Link{Hosts: 1, Connected: 1, Ended: test.want}); got != want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, want)
		}
	}
}
