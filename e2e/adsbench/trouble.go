package main

import (
	"fmt"
	"strings"
	"time"
)

// rate changes an endpoint ten times a second.
func (s *script) rate() error {
	if _, err := s.fleet.ask("mark"); err != nil {
		return err
	}
	cpu := s.server.cpu()
	if _, err := s.server.ask("rate", s.storm); err != nil {
		return err
	}
	time.Sleep(time.Second)
	a, err := s.fleet.ask("report", eds)
	if err != nil {
		return err
	}
	if a.Proxies < s.proxies {
		return fmt.Errorf("ten changes a second: %d of %d proxies got the changes", a.Proxies, s.proxies)
	}
	s.set("ten changes/s: server CPU, % of one", 100*(s.server.cpu()-cpu).Seconds()/s.storm.Seconds())
	s.set("ten changes/s: responses to each per s", float64(a.Responses)/float64(s.proxies)/s.storm.Seconds())
	_, peak := s.server.memory()
	s.set("ten changes/s: peak RSS, MB", float64(peak)/mebibyte)
	return nil
}

// restart ends the server and starts it again: with the same mesh, of which nobody needs anything anew, and with one that
// has changed much meanwhile.
func (s *script) restart() error {
	s.server.stop()
	if err := s.serve(); err != nil { // without the changes, so that a few resources differ from what the fleet has
		return err
	}
	if err := s.awaitSynced(); err != nil {
		return err
	}
	if err := s.restartAs("restart"); err != nil {
		return err
	}
	s.later = true
	return s.restartAs("restart after larger changes")
}

func (s *script) restartAs(name string) error {
	if _, err := s.fleet.ask("mark"); err != nil {
		return err
	}
	s.server.stop()
	from := time.Now()
	if err := s.serve(s.profiled(strings.ReplaceAll(name, " ", "-"))...); err != nil {
		return err
	}
	if err := s.awaitSynced(); err != nil {
		return err
	}
	a, err := s.fleet.ask("report", cds)
	if err != nil {
		return err
	}
	s.set(name+": all back, s", time.Since(from).Seconds())
	s.set(name+": server CPU, start too, s", s.server.cpu().Seconds())
	_, peak := s.server.memory()
	s.set(name+": peak RSS, MB", float64(peak)/mebibyte)
	s.set(name+": bytes, % of the first configuration", 100*float64(a.Bytes)/float64(s.proxies)/1e6/s.values["sent to each, MB"])
	return nil
}

func (s *script) awaitSynced() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		a, err := s.server.ask("clients")
		if err != nil {
			return err
		}
		if a.Synced == int64(s.proxies) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d clients have everything after a restart", a.Synced, s.proxies)
		}
	}
}

// deaf adds clients that ask and never read, to a server of its own with a short deadline.
func (s *script) deaf() error {
	const count, limit = 40, 4 * time.Second
	target, err := freePort()
	if err != nil {
		return err
	}
	alone := &script{bench: s.bench, variant: s.variant, target: target, mesh: s.mesh}
	if err := alone.serve("-sendTimeout", limit); err != nil {
		return err
	}
	defer alone.server.stop()
	warm, err := start("fleet", "-target", target, "-proxies", 2, s.delta())
	if err != nil {
		return err
	}
	defer warm.stop()
	if _, err := warm.ask("await", rds, 20*time.Second); err != nil {
		return err
	}
	before, err := alone.server.ask("settle")
	if err != nil {
		return err
	}
	from := time.Now()
	clients, err := start("fleet", "-target", target, "-proxies", count, "-deaf", s.delta())
	if err != nil {
		return err
	}
	defer clients.stop()
	if err := alone.awaitClients(2+count, limit); err != nil {
		return err
	}
	during, err := alone.server.ask("settle")
	if err != nil {
		return err
	}
	if err := alone.awaitClients(2, 2*limit); err != nil {
		return err
	}
	s.set("a client that never reads, kB of live memory", float64(during.Live-before.Live)/count/1024)
	s.set("and is gone after, s (deadline 4)", time.Since(from).Seconds())
	return nil
}

func (s *script) awaitClients(want int64, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		a, err := s.server.ask("clients")
		if err != nil {
			return err
		}
		if a.Clients == want {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d clients, want %d", a.Clients, want)
		}
	}
}
