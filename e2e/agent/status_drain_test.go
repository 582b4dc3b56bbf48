package agent

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// wish posts to the status port and wants a 200.
func (s *standalone) wish(path string) {
	s.t.Helper()
	code, text, err := post("http://" + s.status + path)
	if err != nil || code != http.StatusOK {
		s.t.Fatalf("POST %s: %d %s, %v", path, code, text, err)
	}
}

// says waits until readiness has a code and a text.
func (s *standalone) says(code int, text string) error {
	return lab.Eventually(lab.StopLimit, func() error {
		response, err := fresh.Get("http://" + s.status + "/healthz/ready")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var body [200]byte
		n, _ := response.Body.Read(body[:])
		if response.StatusCode != code || !strings.Contains(string(body[:n]), text) {
			return fmt.Errorf("ready says %d %q, want %d %q", response.StatusCode, body[:n], code, text)
		}
		return nil
	})
}

// closes reports whether a listener answers and tells the connection to close.
func closes(address string) (bool, error) {
	client := &http.Client{Transport: &http.Transport{}} // which would keep it
	response, err := client.Get("http://" + address + "/")
	if err != nil {
		return false, err
	}
	defer client.CloseIdleConnections()
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s", response.Status)
	}
	return response.Close, nil
}

// A drain takes the proxy out of service at once and for as long as nobody ends it: no handover and no crash puts it
// back. New requests are answered all the same, and outbound is not touched.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	outbound := withOutbound(s)
	s.configure(1)
	s.launch()
	s.must(s.awaitRevision(1, lab.StopLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	load := s.lightLoad()

	drained := func(when string) {
		t.Helper()
		if r, err := readiness(s.status); err != nil || r.code != 503 || !r.Drained || r.Ready {
			t.Errorf("%s: %+v, %v; want it drained", when, r, err)
		}
		s.must(lab.Eventually(lab.StopLimit, func() error {
			if closing, err := closes(s.address); err != nil || !closing {
				return fmt.Errorf("%s: inbound closes %v, %v", when, closing, err)
			}
			return nil
		}))
		if closing, err := closes(outbound); err != nil || closing {
			t.Errorf("%s: outbound closes %v, %v", when, closing, err)
		}
	}
	s.wish("/drain")
	drained("at once")
	s.configure(2)
	s.must(s.awaitRevision(2, handoverLimit))
	s.must(s.awaitAlone(handoverLimit))
	drained("after a handover")
	lab.Unharmed(t, load)

	s.must(syscall.Kill(s.pid("serving"), syscall.SIGKILL))
	s.must(s.awaitStatus(handoverLimit, "a restart", func(a agentStatus) bool { return a.Counts["Envoy serves"] == 3 }))
	drained("after a crash")

	load = s.lightLoad()
	s.wish("/undrain")
	s.must(s.says(200, "ready"))
	s.must(s.awaitAlone(handoverLimit)) // until then the drained one may still accept
	if closing, err := closes(s.address); err != nil || closing {
		t.Errorf("back in service: inbound closes %v, %v", closing, err)
	}
	lab.Unharmed(t, load)
}

// POST /quitquitquit has the effect of SIGTERM: the work in flight is finished.
func TestQuitQuitQuit(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--terminationDrainDuration", "60s")
	in := s.hold()
	s.awaitInFlight(1)
	s.wish("/drain") // which does not count as the work being done
	s.wish("/quitquitquit")
	s.must(s.AwaitLog("msg=stopping")) // by its own way
	close(s.program.held)
	if err := <-in; err != nil {
		t.Errorf("request in flight: %v", err)
	}
	code, err := s.Wait(lab.StopLimit)
	s.must(err)
	if code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
}

// From elsewhere neither is to be had, nor by GET.
func TestControlIsLocal(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	for _, path := range []string{"/drain", "/undrain", "/quitquitquit"} {
		if body, err := lab.Get("http://" + s.status + path); err == nil || !strings.Contains(err.Error(), "405") {
			t.Errorf("GET %s: %s, %v", path, body, err)
		}
		request, err := http.NewRequest(http.MethodPost, "http://"+s.status+path, nil)
		s.must(err)
		request.Host = "evil.example"
		response, err := fresh.Do(request)
		s.must(err)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("POST %s of another host's name: %s", path, response.Status)
		}
	}
	s.must(s.says(200, "ready"))
}
