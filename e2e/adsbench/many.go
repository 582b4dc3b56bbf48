package main

import (
	"fmt"
	"os"
	"time"
)

// large changes endpoints one after another in a large mesh of few proxies: what that costs is what the server looks at.
func (s *script) large() error {
	const proxies, changes = 3, 10
	if s.many == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "adsbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := *s.bench
	b.services, b.proxies = s.many, proxies
	alone := &script{bench: &b, variant: s.variant}
	if alone.target, err = freePort(); err != nil {
		return err
	}
	if err := alone.write(dir); err != nil {
		return err
	}
	if err := alone.serve(s.profiled("large")...); err != nil {
		return err
	}
	defer alone.server.stop()
	if err := alone.connect(); err != nil {
		return err
	}
	defer alone.fleet.stop()
	time.Sleep(time.Second) // the last ACKs
	var last []float64
	cpu := alone.server.cpu()
	for range changes {
		if _, err := alone.fleet.ask("mark"); err != nil {
			return err
		}
		from := time.Now()
		if _, err := alone.server.ask("endpoint"); err != nil {
			return err
		}
		a, err := alone.fleet.ask("await", eds, 20*time.Second)
		if err != nil {
			return err
		}
		if a.Proxies < proxies {
			return fmt.Errorf("%d services: %d of %d proxies got the change", s.many, a.Proxies, proxies)
		}
		last = append(last, ms(time.Unix(0, a.Last).Sub(from)))
		time.Sleep(300 * time.Millisecond)
	}
	name := fmt.Sprintf("%d services, %d proxies: endpoint", s.many, proxies)
	s.set(name+" → last ACK, ms", middle(last))
	s.set(name+", server CPU ms", ms(alone.server.cpu()-cpu)/changes)
	return nil
}
