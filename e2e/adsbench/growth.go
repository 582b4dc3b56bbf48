package main

import (
	"fmt"
	"os"
	"strings"
)

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
