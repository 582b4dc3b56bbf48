package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

type bench struct {
	services, endpoints, proxies, runs, changes int
	debounce, storm                             time.Duration
	only, profile                               string
}

// figures are what one run measured, by name, and the order they are printed in.
type figures struct {
	names  []string
	values map[string]float64
}

func (f *figures) set(name string, value float64) {
	if f.values == nil {
		f.values = map[string]float64{}
	}
	if _, ok := f.values[name]; !ok {
		f.names = append(f.names, name)
	}
	f.values[name] = value
}

func (b *bench) variants() []string {
	if b.only != "" {
		return []string{b.only}
	}
	return []string{"sotw", "delta"}
}

// table measures ours and the floor in turn, and prints medians, ranges and their ratio.
func (b *bench) table() error {
	for _, variant := range b.variants() {
		var ours, floors []figures
		for range b.runs {
			dir, err := os.MkdirTemp("", "adsbench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			o, err := b.ours(variant, dir)
			if err != nil {
				return err
			}
			f, err := b.floor(variant, dir)
			if err != nil {
				return err
			}
			ours, floors = append(ours, o), append(floors, f)
		}
		fmt.Printf("\n%s: %d services × %d endpoints × %d proxies, %d runs; changes less %s of debounce\n\n",
			variant, b.services, b.endpoints, b.proxies, b.runs, b.debounce)
		fmt.Printf("| %-42s | %-22s | %-22s | ratio |\n|---|---|---|---|\n", "", "ours", "floor")
		for _, name := range ours[0].names {
			o, of := median(ours, name)
			f, ff := median(floors, name)
			ratio := ""
			if f > 0 {
				ratio = fmt.Sprintf("%.2f", o/f)
			}
			fmt.Printf("| %-42s | %-22s | %-22s | %-5s |\n", name, of, ff, ratio)
		}
	}
	return nil
}

func median(runs []figures, name string) (float64, string) {
	var all []float64
	for _, r := range runs {
		if v, ok := r.values[name]; ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0, "–"
	}
	slices.Sort(all)
	m := all[len(all)/2]
	if len(all) == 1 {
		return m, fmt.Sprintf("%.3g", m)
	}
	return m, fmt.Sprintf("%.3g [%.3g–%.3g]", m, all[0], all[len(all)-1])
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// script starts the fleet against a server and measures until everybody has everything.
type script struct {
	*bench
	figures
	variant string
	server  *child
	fleet   *child
	target  string
	started time.Time
}

func (s *script) delta() string { return fmt.Sprintf("-delta=%t", s.variant == "delta") }

const mebibyte = 1 << 20

// configure lets all proxies connect at once.
func (s *script) configure() (err error) {
	before, cpu := s.settled(), s.server.cpu()
	s.started = time.Now()
	if s.fleet, err = start("fleet", "-target", s.target, "-proxies", s.proxies, s.delta()); err != nil {
		return err
	}
	a, err := s.fleet.ask("await", rds, 4*time.Minute)
	if err != nil {
		return err
	}
	if a.Proxies < s.proxies {
		return fmt.Errorf("%d of %d proxies are configured", a.Proxies, s.proxies)
	}
	s.set("all configured, s", time.Unix(0, a.Last).Sub(s.started).Seconds())
	s.set("server CPU of that, s", (s.server.cpu() - cpu).Seconds())
	s.set("server CPU, its start and model too, s", s.server.cpu().Seconds())
	s.set("sent to each, MB", float64(a.Bytes)/float64(s.proxies)/1e6)
	_, peak := s.server.memory()
	s.set("peak RSS, MB", float64(peak)/mebibyte)
	after := s.settled()
	s.set("settled RSS, MB", float64(after)/mebibyte)
	s.set("an idle stream, kB of RSS", float64(after-before)/float64(s.proxies)/1024)
	return nil
}

func (s *script) settled() int64 {
	_, _ = s.server.ask("settle")
	rss, _ := s.server.memory()
	return rss
}

// change makes the server tell of something, and measures until every proxy has it.
func (s *script) change(name string, kind int, wait time.Duration, trigger ...any) error {
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
			return fmt.Errorf("%s: %d of %d proxies were told", name, a.Proxies, s.proxies)
		}
		firsts = append(firsts, ms(time.Unix(0, a.First).Sub(from)-wait))
		lasts = append(lasts, ms(time.Unix(0, a.Last).Sub(from)-wait))
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

func (s *script) serve(extra ...any) (err error) {
	args := []any{"-listen", s.target, "-services", s.services, "-endpoints", s.endpoints, "-debounce", s.debounce}
	s.server, err = start("server", append(args, extra...)...)
	return err
}

func (s *script) runOurs(dir string) (err error) {
	if s.target, err = freePort(); err != nil {
		return err
	}
	var profile []any
	if s.profile != "" {
		profile = []any{"-profile", s.profile + "." + s.variant}
	}
	if err := s.serve(profile...); err != nil {
		return err
	}
	defer func() { s.server.stop() }()
	if err := s.configure(); err != nil {
		return err
	}
	defer func() { s.fleet.stop() }()
	steps := []struct {
		name    string
		kind    int
		trigger string
	}{{"endpoint", eds, "endpoint"}, {"weight", rds, "weight"}, {"service", rds, "service"}}
	for _, step := range steps {
		if err := s.change(step.name, step.kind, s.debounce, step.trigger); err != nil {
			return err
		}
	}
	if err := s.rate(); err != nil {
		return err
	}
	if err := s.restart(); err != nil {
		return err
	}
	if err := s.deaf(); err != nil {
		return err
	}
	return capture(s.target, dir, s.variant == "delta", s.server)
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
		return fmt.Errorf("ten changes a second: %d of %d proxies were told", a.Proxies, s.proxies)
	}
	s.set("ten changes/s: server CPU, % of one", 100*(s.server.cpu()-cpu).Seconds()/s.storm.Seconds())
	s.set("ten changes/s: responses to each per s", float64(a.Responses)/float64(s.proxies)/s.storm.Seconds())
	_, peak := s.server.memory()
	s.set("ten changes/s: peak RSS, MB", float64(peak)/mebibyte)
	return nil
}

// restart ends the server and starts it again with the same mesh: nobody needs anything anew.
func (s *script) restart() error {
	s.server.stop()
	if err := s.serve(); err != nil { // without the changes, so that a few resources differ from what the fleet has
		return err
	}
	if err := s.awaitSynced(); err != nil {
		return err
	}
	if _, err := s.fleet.ask("mark"); err != nil {
		return err
	}
	s.server.stop()
	from := time.Now()
	if err := s.serve(); err != nil {
		return err
	}
	if err := s.awaitSynced(); err != nil {
		return err
	}
	a, err := s.fleet.ask("report", cds)
	if err != nil {
		return err
	}
	s.set("restart: all back, s", time.Since(from).Seconds())
	s.set("restart: server CPU, start too, s", s.server.cpu().Seconds())
	s.set("restart: bytes, % of the first configuration", 100*float64(a.Bytes)/float64(s.proxies)/1e6/s.values["sent to each, MB"])
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
	alone := &script{bench: s.bench, variant: s.variant, target: target}
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

func (b *bench) floor(variant, dir string) (figures, error) {
	s := &script{bench: b, variant: variant}
	err := s.runFloor(dir)
	return s.figures, err
}

func (s *script) runFloor(dir string) (err error) {
	if s.target, err = freePort(); err != nil {
		return err
	}
	if s.server, err = start("floor", "-listen", s.target, "-dir", dir, s.delta()); err != nil {
		return err
	}
	defer s.server.stop()
	if err := s.configure(); err != nil {
		return err
	}
	defer s.fleet.stop()
	if err := s.change("endpoint", eds, 0, "push", eds); err != nil {
		return err
	}
	return s.change("weight", rds, 0, "push", rds)
}

// growth prints the cost of a further proxy and of a further service.
func (b *bench) growth() error {
	for _, variant := range b.variants() {
		for _, d := range []struct {
			name string
			size *int
		}{{"proxies", &b.proxies}, {"services", &b.services}} {
			if err := b.fit(variant, d.name, d.size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) fit(variant, name string, size *int) error {
	full := *size
	defer func() { *size = full }()
	fmt.Printf("\n%s, %s\n", variant, name)
	var xs, cpu, rss, last []float64
	for _, part := range []int{4, 2, 1} {
		*size = full / part
		s := &script{bench: b, variant: variant}
		if err := s.once(); err != nil {
			return err
		}
		xs = append(xs, float64(*size))
		cpu = append(cpu, s.values["server CPU of that, s"]*1000)
		rss = append(rss, s.values["settled RSS, MB"]*1024)
		last = append(last, s.values["endpoint → last ACK, ms"])
		fmt.Printf("  %5d: %s\n", *size, strings.Join([]string{
			fmt.Sprintf("CPU %.2f s", s.values["server CPU of that, s"]), fmt.Sprintf("RSS %.0f MB", s.values["settled RSS, MB"]),
			fmt.Sprintf("endpoint → last ACK %.0f ms", last[len(last)-1]),
		}, ", "))
	}
	for _, line := range []struct {
		what string
		ys   []float64
	}{{"ms of CPU", cpu}, {"kB of RSS", rss}, {"ms of latency", last}} {
		slope, at := fitLine(xs, line.ys)
		fmt.Printf("  a further one costs %.3g %s, beside %.3g\n", slope, line.what, at)
	}
	return nil
}

// once is the first configuration and one change.
func (s *script) once() (err error) {
	if s.target, err = freePort(); err != nil {
		return err
	}
	if err := s.serve(); err != nil {
		return err
	}
	defer s.server.stop()
	if err := s.configure(); err != nil {
		return err
	}
	defer s.fleet.stop()
	return s.change("endpoint", eds, s.debounce, "endpoint")
}

// fitLine is the line of the least squares.
func fitLine(xs, ys []float64) (slope, at float64) {
	var sx, sy, sxx, sxy float64
	n := float64(len(xs))
	for i, x := range xs {
		sx, sy, sxx, sxy = sx+x, sy+ys[i], sxx+x*x, sxy+x*ys[i]
	}
	slope = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return slope, (sy - slope*sx) / n
}
