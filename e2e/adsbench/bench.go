package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "adsbench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	roles := map[string]func([]string) error{"server": runServer, "floor": runFloor, "fleet": runFleet, "ca": runAuthority}
	if len(args) > 0 && roles[args[0]] != nil {
		return roles[args[0]](args[1:])
	}
	flags := flag.NewFlagSet("adsbench", flag.ExitOnError)
	var b bench
	flags.IntVar(&b.services, "services", 100, "services of the mesh")
	flags.IntVar(&b.endpoints, "endpoints", 10, "endpoints of each")
	flags.IntVar(&b.proxies, "proxies", 100, "simulated Envoys")
	flags.IntVar(&b.namespaces, "namespaces", 1, "that services and proxies are in, in turn: each has a view of its own")
	flags.IntVar(&b.runs, "runs", 1, "runs of each variant; medians and ranges are printed")
	flags.IntVar(&b.changes, "changes", 3, "changes of each sort in a run")
	flags.DurationVar(&b.debounce, "debounce", 100*time.Millisecond, "of the server: the least time from one push to the next; a change after that is pushed at once")
	flags.DurationVar(&b.storm, "storm", 10*time.Second, "how long to change an endpoint ten times a second; 0s to leave that out")
	flags.DurationVar(&b.rest, "rest", 30*time.Second, "how long a server has to give back memory by itself before it is measured; 0s to leave that out")
	flags.StringVar(&b.only, "variant", "", "sotw or delta; both when empty")
	flags.StringVar(&b.profile, "profile", "", "write CPU profiles of the server to files that begin so")
	flags.IntVar(&b.many, "many", 10_000, "services of the mesh in which three proxies are told of one endpoint; 0 to leave that out")
	flags.BoolVar(&b.cold, "cold", false, "measure the first configuration only: a run takes some seconds")
	growth := flags.Bool("growth", false, "measure three sizes of each dimension and fit a line, instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *growth {
		return b.growth()
	}
	return b.table()
}

type bench struct {
	services, endpoints, proxies, namespaces, runs, changes int
	many                                                    int // services of the large mesh
	debounce, storm, rest                                   time.Duration
	only, profile                                           string
	cold                                                    bool // measure the first configuration, and nothing after it
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
		fmt.Printf("\n%s: %d services × %d endpoints × %d proxies in %d namespaces, %d runs; pushes at least %s apart\n\n",
			variant, b.services, b.endpoints, b.proxies, b.namespaces, b.runs, b.debounce)
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
	dir, err := os.MkdirTemp("", "adsbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := s.write(dir); err != nil {
		return err
	}
	if err := s.serve(); err != nil {
		return err
	}
	defer s.server.stop()
	if err := s.first(); err != nil {
		return err
	}
	defer s.fleet.stop()
	s.set("settled RSS, MB", float64(s.settled())/mebibyte)
	return s.change("endpoint", eds, "endpoint")
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
