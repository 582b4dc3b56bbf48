package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// What `make demo` runs: it comes up, answers over HTTP, says where, stops on Ctrl-C and leaves nothing running.
func TestTheDemo(t *testing.T) {
	dir, addresses := t.TempDir(), lab.Addresses()
	demo, err := lab.Start(lab.Spec{Name: "demo", Dir: dir, Argv: []string{
		filepath.Join(bin, "demo"), "-bin", bin, "-run", filepath.Join(dir, "run"), "-config", "../examples/bookinfo/config",
		"-addresses", addresses, "-port-offset", strconv.Itoa(1000 + rand.IntN(14000)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { demo.Stop(stopLimit) })
	url := "http://" + addresses + "11:9080/productpage"
	if err := lab.Eventually(30*time.Second, func() error {
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
	if len(started) != 1+5+5+5 {
		t.Errorf("%d processes run, want discovery, 5 services, 5 agents, 5 Envoys", len(started))
	}
	demo.Signal(syscall.SIGINT)
	code, err := demo.Wait(30 * time.Second)
	if err != nil || code != 0 {
		t.Errorf("after Ctrl-C: exit status %d, %v; want 0:\n%s", code, err, demo.Log())
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
