//go:build registries

package registries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The demo's bookinfo comes out of Consul: an instance that is deregistered there gets no requests.
func TestConsulDemo(t *testing.T) {
	w := newWorld(t)
	programs := filepath.Join(w.Dir, "bin")
	w.check(os.MkdirAll(filepath.Join(programs, "registries"), 0o755))
	for from, to := range map[string]string{
		lab.Envoy(): "envoy", needs(t, "consul"): "registries/consul", lab.Program("agent"): "agent", lab.Program("discovery"): "discovery",
		lab.Program("bookinfo"): "bookinfo",
	} {
		w.check(os.Symlink(from, filepath.Join(programs, to)))
	}
	root, err := lab.Root()
	w.check(err)
	offset := lab.DemoOffset(t)
	demo, err := lab.Start(lab.Spec{Name: "demo", Dir: w.Dir, Argv: []string{
		lab.Program("demo"), "-registry", "consul", "-bin", programs, "-config", filepath.Join(root, "examples/bookinfo/config"),
		"-run", filepath.Join(w.Dir, "run"), "-addresses", w.Addresses, "-port-offset", fmt.Sprint(offset),
	}})
	w.check(err)
	w.StopAtEnd("demo", demo)
	page := "http://" + w.Addresses + "11:9080/api/v1/products/0"
	reviews := func() string {
		body, err := lab.Get(page)
		if err != nil {
			return err.Error()
		}
		return body
	}
	w.eventually("Ctrl-C stops everything", demo.Log)
	w.eventually(`"reviews":{"version":"v1"`, reviews)
	consul := &consul{part: &part{w: w}, url: "http://" + local(8500+offset)}
	consul.put("/v1/agent/service/deregister/reviews-v1", nil)
	w.eventually(`"reviewsError"`, reviews)

	demo.Signal(syscall.SIGINT)
	if code, err := demo.Wait(time.Minute); code != 0 || err != nil || !strings.Contains(demo.Log(), "Stopped.") {
		t.Errorf("after Ctrl-C it ends with %d, %v", code, err)
	}
}
