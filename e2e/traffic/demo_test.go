package traffic

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// `make demo` comes up, answers over HTTP, says where, stops on Ctrl-C and leaves nothing running.
func TestTheDemo(t *testing.T) {
	dir, addresses := lab.ShortDir(t), lab.Addresses()
	demo, err := lab.Start(lab.Spec{Name: "demo", Dir: dir, Env: os.Environ(), Argv: []string{
		"make", "-C", lab.Path(), "demo", fmt.Sprintf("DEMO=-run %s/run -addresses %s -port-offset %d", dir, addresses, 1000+rand.IntN(14000)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { demo.Stop(lab.StopLimit) })
	url := "http://" + addresses + "11:9080/productpage"
	if err := lab.Eventually(2*time.Minute, func() error { // it builds first
		select {
		case <-demo.Done():
			return nil
		default:
		}
		if !strings.Contains(demo.Log(), url) {
			return fmt.Errorf("it has not printed %s", url)
		}
		return nil
	}); err != nil {
		t.Fatalf("%v:\n%s", err, demo.Log())
	}
	page, err := lab.Get(url)
	if err != nil {
		t.Fatalf("%v:\n%s", err, demo.Log())
	}
	if !strings.Contains(page, "reviews") {
		t.Errorf("the page shows no reviews:\n%s", page)
	}
	started := descendants(demo.Pid)
	if len(started) != 1+1+5+5+5 {
		t.Errorf("%d processes run, want the demo, discovery, 5 services, 5 agents, 5 Envoys", len(started))
	}
	// A terminal's Ctrl-C is for the whole group: make says so with a status of its own, the demo stops in order.
	if err := syscall.Kill(-demo.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := demo.Wait(30 * time.Second); err != nil || !strings.Contains(demo.Log(), "Stopped.") {
		t.Errorf("after Ctrl-C: %v:\n%s", err, demo.Log())
	}
	for _, pid := range started {
		if lab.Alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func descendants(pid int) (all []int) {
	for _, child := range lab.Children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}
