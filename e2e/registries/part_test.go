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
	w.T.Helper()
	spec.Dir = w.Dir
	p := &part{w: w, spec: spec, ready: ready}
	w.StopAtEnd(spec.Name, p)
	p.restart()
	return p
}

// restart starts it, again.
func (p *part) restart() {
	p.w.T.Helper()
	process, err := lab.Start(p.spec)
	p.w.check(err)
	p.Process = process
	p.w.check(lab.Eventually(2*time.Minute, func() error {
		select {
		case <-process.Done():
			p.w.T.Fatalf("%s has ended:\n%s", p.Name, lab.Tail(p.Log()))
		default:
		}
		return p.ready()
	}))
}

// kill ends it without a warning.
func (p *part) kill() {
	p.w.T.Helper()
	p.Signal(syscall.SIGKILL)
	_, err := p.Wait(stopLimit)
	p.w.check(err)
}
