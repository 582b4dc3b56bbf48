package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// script starts the fleet against a server and measures until everybody has everything.
type script struct {
	*bench
	figures
	variant string
	server  *child
	fleet   *child
	target  string
	mesh    string // directory of its configuration
	later   bool   // that is written after larger changes
	started time.Time
}

func (s *script) delta() string { return fmt.Sprintf("-delta=%t", s.variant == "delta") }

const mebibyte = 1 << 20

// first lets all proxies connect at once to a server that has just started, and that nobody makes give memory back: neither
// before, for that would cost it a collection, nor after.
func (s *script) first() error {
	s.started = time.Now()
	before := s.server.cpu()
	if err := s.connect(); err != nil {
		return err
	}
	a, err := s.fleet.ask("report", rds)
	if err != nil {
		return err
	}
	s.set("all configured, s", time.Unix(0, a.Last).Sub(s.started).Seconds())
	s.set("server CPU of that, s", (s.server.cpu() - before).Seconds())
	s.set("server CPU, its start and model too, s", s.server.cpu().Seconds())
	s.set("streams of each", float64(a.Streams)/float64(s.proxies))
	s.set("sent to each, MB", float64(a.Bytes)/float64(s.proxies)/1e6)
	_, peak := s.server.memory()
	s.set("peak RSS, MB", float64(peak)/mebibyte)
	if s.rest > 0 && !s.cold {
		time.Sleep(s.rest)
		rss, _ := s.server.memory()
		s.set(fmt.Sprintf("RSS %s later, unforced, MB", s.rest), float64(rss)/mebibyte)
	}
	return nil
}

// connect starts a fleet, and waits until all of it is configured.
func (s *script) connect() (err error) {
	if s.fleet, err = start("fleet", "-namespaces", s.namespaces, "-target", s.target, "-proxies", s.proxies, s.delta()); err != nil {
		return err
	}
	a, err := s.fleet.ask("await", rds, 4*time.Minute)
	if err != nil {
		return err
	}
	if a.Proxies < s.proxies {
		return fmt.Errorf("%d of %d proxies are configured, by %d streams", a.Proxies, s.proxies, a.Streams)
	}
	return nil
}

// settle measures what proxies hold of a server's memory.
func (s *script) settle() error {
	before := s.settled()
	if err := s.connect(); err != nil {
		return err
	}
	after := s.settled()
	s.set("settled RSS, MB", float64(after)/mebibyte)
	s.set("an idle stream, kB of RSS", float64(after-before)/float64(s.proxies)/1024)
	return nil
}

// again lets all proxies connect once more, as in a hot restart: of a node that is known a stream is all that is new.
func (s *script) again() error {
	before := s.settled()
	fleet, err := start("fleet", "-namespaces", s.namespaces, "-target", s.target, "-proxies", s.proxies, s.delta())
	if err != nil {
		return err
	}
	defer func() { // later peaks are those of one stream each
		fleet.stop()
		s.server.forgetPeak()
	}()
	if _, err := fleet.ask("await", rds, 4*time.Minute); err != nil {
		return err
	}
	s.set("a second stream of each, kB of RSS", float64(s.settled()-before)/float64(s.proxies)/1024)
	return nil
}

func (s *script) settled() int64 {
	_, _ = s.server.ask("settle")
	rss, _ := s.server.memory()
	return rss
}

// change makes the server tell of something, and measures until every proxy has it.
func (s *script) change(name string, kind int, trigger ...any) error {
	var firsts, lasts, cpus, sizes []float64
	for range s.changes {
		if _, err := s.fleet.ask("mark"); err != nil {
			return err
		}
		cpu, from := s.server.cpu(), time.Now()
		if _, err := s.server.ask(trigger...); err != nil {
			return err
		}
		a, err := s.fleet.ask("await", kind, 20*time.Second)
		if err != nil {
			return err
		}
		if a.Proxies < s.proxies {
			return fmt.Errorf("%s: %d of %d proxies got the change", name, a.Proxies, s.proxies)
		}
		firsts = append(firsts, ms(time.Unix(0, a.First).Sub(from)))
		lasts = append(lasts, ms(time.Unix(0, a.Last).Sub(from)))
		time.Sleep(300 * time.Millisecond) // the last ACKs
		cpus = append(cpus, (s.server.cpu() - cpu).Seconds())
		sizes = append(sizes, float64(a.Bytes)/float64(s.proxies)/1024)
	}
	s.set(name+" → first ACK, ms", middle(firsts))
	s.set(name+" → last ACK, ms", middle(lasts))
	s.set(name+", server CPU s", middle(cpus))
	s.set(name+", kB to each", middle(sizes))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func (b *bench) ours(variant, dir string) (figures, error) {
	s := &script{bench: b, variant: variant}
	err := s.runOurs(dir)
	return s.figures, err
}

// serve starts a server on the mesh as it is without any change.
func (s *script) serve(extra ...any) (err error) {
	if err := (mesh{s.mesh, s.services, s.endpoints, s.namespaces, s.later}).write(); err != nil {
		return err
	}
	args := []any{"-listen", s.target, "-services", s.services, "-endpoints", s.endpoints, "-namespaces", s.namespaces, "-mesh", s.mesh, "-debounce", s.debounce}
	s.server, err = start("server", append(args, extra...)...)
	return err
}

// profiled asks a server for a profile, where one is wanted.
func (s *script) profiled(what string) []any {
	if s.profile == "" {
		return nil
	}
	return []any{"-profile", s.profile + "." + s.variant + "." + what}
}

// write makes the directory that servers read.
func (s *script) write(dir string) error {
	s.mesh = filepath.Join(dir, "mesh")
	return os.Mkdir(s.mesh, 0o700)
}

func (s *script) runOurs(dir string) (err error) {
	if s.target, err = freePort(); err != nil {
		return err
	}
	if err := s.write(dir); err != nil {
		return err
	}
	if err := s.serve(s.profiled("cold")...); err != nil {
		return err
	}
	defer func() { s.server.stop() }()
	if err := s.first(); err != nil {
		return err
	}
	defer func() { s.fleet.stop() }()
	if s.cold {
		return capture(s.target, dir, s.variant == "delta", s.server)
	}
	s.fleet.stop()
	s.server.stop()
	if err := s.serve(s.profiled("changes")...); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err
	}
	steps := []struct {
		name    string
		kind    int
		trigger string
	}{{"endpoint", eds, "endpoint"}, {"weight", rds, "weight"}, {"service", rds, "service"}}
	for _, step := range steps {
		if err := s.change(step.name, step.kind, step.trigger); err != nil {
			return err
		}
	}
	if s.storm > 0 {
		if err := s.rate(); err != nil {
			return err
		}
	}
	if err := s.restart(); err != nil {
		return err
	}
	if err := s.deaf(); err != nil {
		return err
	}
	if err := s.large(); err != nil {
		return err
	}
	return capture(s.target, dir, s.variant == "delta", s.server)
}

func (b *bench) floor(variant, dir string) (figures, error) {
	s := &script{bench: b, variant: variant}
	err := s.runFloor(dir)
	return s.figures, err
}

func (s *script) runFloor(dir string) (err error) {
	if s.target, err = freePort(); err != nil {
		return err
	}
	serve := func() (err error) {
		s.server, err = start("floor", "-listen", s.target, "-dir", dir, s.delta())
		return err
	}
	if err := serve(); err != nil {
		return err
	}
	defer func() { s.server.stop() }()
	if err := s.first(); err != nil {
		return err
	}
	defer func() { s.fleet.stop() }()
	if s.cold {
		return nil
	}
	s.fleet.stop()
	s.server.stop()
	if err := serve(); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err
	}
	if err := s.change("endpoint", eds, "push", eds); err != nil {
		return err
	}
	return s.change("weight", rds, "push", rds)
}

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
