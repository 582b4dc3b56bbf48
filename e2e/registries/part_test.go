//go:build registries

package registries

import (
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// part is a real registry, or another server that a test needs. Its specification says its ports and where its data is, so that
// it comes back as the same one.
type part struct {
	*lab.Process
	w     *world
	spec  lab.Spec
	ready func() error // asked until it is nil
}

// part starts one and waits until it is ready. It is stopped with the test.
func (w *world) part(spec lab.Spec, ready func() error) *part {
	w.t.Helper()
	spec.Dir = w.Dir
	p := &part{w: w, spec: spec, ready: ready}
	w.t.Cleanup(func() {
		p.Stop(stopLimit)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", p.Name, tail(p.Log()))
		}
	})
	p.restart()
	return p
}

// restart starts it, again.
func (p *part) restart() {
	p.w.t.Helper()
	process, err := lab.Start(p.spec)
	p.w.check(err)
	p.Process = process
	p.w.check(lab.Eventually(2*time.Minute, func() error {
		select {
		case <-process.Done():
			p.w.t.Fatalf("%s has ended:\n%s", p.Name, tail(p.Log()))
		default:
		}
		return p.ready()
	}))
}

// kill ends it without a warning.
func (p *part) kill() {
	p.w.t.Helper()
	p.Signal(syscall.SIGKILL)
	_, err := p.Wait(stopLimit)
	p.w.check(err)
}

// tail keeps the end of a log.
func tail(log string) string {
	const most = 8_000
	return log[max(0, len(log)-most):]
}
