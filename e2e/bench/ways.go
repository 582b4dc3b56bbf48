package main

import (
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// way is what was measured of sidecars with one way to discovery.
type way struct{ ready, again, stop, rss, cpu, wakeups []float64 }

// ways measures a sidecar of each way to discovery, in an order that changes with each turn. Those of the first turns stay idle for a while.
func (b *run) ways(i int) error {
	for j := range 2 {
		flag, to := "on", &b.relayed
		if (i+j)%2 == 0 {
			flag, to = "off", &b.direct
		}
		if err := b.measure(fmt.Sprintf("way%d-%s", i, flag), flag, to, i < b.lives); err != nil {
			return err
		}
	}
	b.through = append(b.through, b.relayed.ready[i]-b.direct.ready[i])
	return nil
}

func (b *run) measure(name, flag string, to *way, idle bool) error {
	began := time.Now()
	s, socket, err := b.sidecar(name, "--lastGood", flag)
	if err != nil {
		return err
	}
	defer s.Stop(stopLimit)
	if err := awaitReady(socket); err != nil {
		return fmt.Errorf("%w:\n%s", err, s.Log())
	}
	to.ready = append(to.ready, since(began))
	if idle {
		to.idle(s)
	}
	if err := b.crash(s, socket, &to.again); err != nil {
		return err
	}
	began = time.Now()
	s.Stop(stopLimit)
	to.stop = append(to.stop, since(began))
	return nil
}

func (to *way) idle(s *lab.Sidecar) {
	time.Sleep(3 * time.Second) // it settles once Envoy serves
	cpu, wakes := lab.CPU(s.Pid), lab.Wakeups(s.Pid)
	time.Sleep(idlePeriod)
	to.cpu = append(to.cpu, (lab.CPU(s.Pid)-cpu).Seconds()*float64(time.Minute/idlePeriod))
	to.rss = append(to.rss, float64(lab.RSS(s.Pid))/1e6)
	to.wakeups = append(to.wakeups, float64(lab.Wakeups(s.Pid)-wakes)/idlePeriod.Seconds())
}
