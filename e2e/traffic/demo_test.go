package traffic

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// shown is a demo that runs.
type shown struct {
	*lab.Process
	t              *testing.T
	run, addresses string
	offset         int
}

// show runs a command of README that starts the demo, with further flags, until it says where the page is, at the address with this last byte.
func show(t *testing.T, last int, command string) shown {
	t.Helper()
	dir := lab.ShortDir(t)
	s := shown{t: t, run: filepath.Join(dir, "run"), addresses: lab.Addresses(), offset: lab.DemoOffset(t)}
	command, flags, _ := strings.Cut(strings.TrimSpace(command), " DEMO=")
	argv := append(strings.Fields(command), fmt.Sprintf("DEMO=%s -run %s -addresses %s -port-offset %d", flags, s.run, s.addresses, s.offset))
	var err error
	s.Process, err = lab.Start(lab.Spec{Name: "demo", Dir: dir, Work: lab.Path(), Env: os.Environ(), Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Process.Stop(lab.StopLimit) })
	url := fmt.Sprintf("http://%s%d:9080/productpage", s.addresses, last)
	if err := lab.Eventually(2*time.Minute, func() error { // it builds first
		select {
		case <-s.Done():
			return nil
		default:
		}
		if !strings.Contains(s.Log(), url) {
			return fmt.Errorf("it has not printed %s", url)
		}
		return nil
	}); err != nil {
		t.Fatalf("%v:\n%s", err, s.Log())
	}
	page, err := lab.Get(url)
	if err != nil {
		t.Fatalf("%v:\n%s", err, s.Log())
	}
	if !strings.Contains(page, "reviews") || strings.Contains(page, "unavailable") {
		t.Errorf("the page shows no reviews:\n%s", page)
	}
	return s
}

// stops ends it as Ctrl-C does, and checks that none of so many processes stays.
func (s shown) stops(processes int) {
	s.t.Helper()
	started := descendants(s.Pid)
	if len(started) != processes {
		s.t.Errorf("%d processes run, want %d", len(started), processes)
	}
	// A terminal's Ctrl-C is for the whole group: make says so with a status of its own, the demo stops in order.
	if err := syscall.Kill(-s.Pid, syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Wait(30 * time.Second); err != nil || !strings.Contains(s.Log(), "Stopped.") {
		s.t.Errorf("after Ctrl-C: %v:\n%s", err, s.Log())
	}
	for _, pid := range started {
		if lab.Alive(pid) {
			s.t.Errorf("process %d still runs", pid)
		}
	}
}

// `make demo` comes up, answers over HTTP, says where, stops on Ctrl-C and leaves nothing running.
func TestTheDemo(t *testing.T) {
	show(t, 11, lab.Command(t, "README.md", "make demo")).stops(1 + 1 + 5 + 5 + 5) // the demo, discovery, 5 services, 5 agents, 5 Envoys
}

// `make demo DEMO=-mtls`: the page works, plain text reaches no sidecar, and of the mesh only productpage reads reviews.
func TestTheDemoUnderStrict(t *testing.T) {
	s := show(t, 16, lab.Command(t, "README.md", "make demo DEMO=-mtls"))
	for last := 11; last <= 15; last++ {
		if body, err := lab.Get(fmt.Sprintf("http://%s%d:9080/reviews/0", s.addresses, last)); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("plain text to %s%d: %q, %v; want a connection that is closed", s.addresses, last, body, err)
		}
	}
	for i, want := range []int{200, 403, 403, 403, 403} { // productpage, details, reviews v1 and v2, ratings
		if got, err := s.reads(i, "http://reviews:9080/reviews/0"); err != nil || got != want {
			t.Errorf("reviews, asked by workload %d: %d, %v; want %d", i, got, err, want)
		}
	}
	if got, err := s.reads(2, "http://ratings:9080/ratings/0"); err != nil || got != 200 {
		t.Errorf("ratings, asked by reviews: %d, %v", got, err)
	}
	modesOf(t, filepath.Join(s.run, "ca"))
	s.stops(1 + 1 + 5 + 6 + 6) // a gateway more
	if left, err := filepath.Glob(filepath.Join(s.run, "*")); err != nil || len(left) != 12 {
		t.Errorf("it leaves %v, %v; want twelve logs", left, err)
	}
}

// reads asks through the outbound proxy of a workload's sidecar, and returns the status.
func (s shown) reads(workload int, target string) (int, error) {
	through := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", 15101+workload+s.offset)}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(through), DisableKeepAlives: true}, Timeout: lab.StopLimit}
	response, err := client.Get(target)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func descendants(pid int) (all []int) {
	for _, child := range lab.Children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}
