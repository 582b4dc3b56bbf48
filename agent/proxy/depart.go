package proxy

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/handoff"
)

// lastLines bounds the time in which the agent's log and Envoy's stdout are written before the ports close.
const lastLines = 500 * time.Millisecond

// attend takes commands for the next image, now that the supervisor has left.
func (c *carriage) attend(askCh <-chan agent.Ask) {
	ctx, cancel := context.WithCancel(context.Background())
	var attending sync.WaitGroup
	attending.Go(func() { c.leaving.Attend(ctx, askCh) })
	c.alone = func() {
		cancel()
		attending.Wait()
	}
}

// depart ends what is left of a run whose supervisor has left, and returns what the next image takes over.
func (c *carriage) depart() (left *Left, err error) {
	var image *os.File
	var unable error
	departure{
		ask: func() { image, unable = c.r.upgrader.confirmed() },
		flush: func() {
			c.r.process.Printed.Flush(lastLines)
			c.r.process.Stderr.Flush(lastLines)
		},
		shut: func() {
			if c.doors != nil {
				c.doors()
			}
		},
		alone: c.alone,
		pack: func() {
			handoff.At(handoff.Shut)
			left, err = c.pack(image, unable)
			handoff.At(handoff.Packed)
		},
	}.run()
	return left, err
}

// departure is the end of a run, by its steps. The ports are served until then: what takes time comes before shut. From shut on until
// the next image serves them, connections wait.
type departure struct {
	ask   func() // asks the next image again, if it has waited
	flush func() // waits for the readers of the agent's output
	shut  func() // answers the requests that were accepted, and accepts no more
	alone func() // ends the taking of commands
	pack  func() // reads the state, which does not change any more
}

func (d departure) run() {
	for _, step := range []func(){d.ask, d.flush, d.shut, d.alone, d.pack} {
		step()
	}
}
