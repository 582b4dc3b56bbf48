package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"time"
)

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
