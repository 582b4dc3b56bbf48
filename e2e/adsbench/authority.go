package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// authorityBench measures what renewals cost the authority of a discovery in a process of its own.
type authorityBench struct {
	discovery string
	agents    int
	runs      int
	rate      int // renewals a second while they are paced
}

func runAuthority(args []string) error {
	flags := flag.NewFlagSet("ca", flag.ExitOnError)
	var b authorityBench
	flags.StringVar(&b.discovery, "discovery", "bin/discovery", "the program")
	flags.IntVar(&b.agents, "agents", 10_000, "that renew, each with a certificate and an identity of its own")
	flags.IntVar(&b.runs, "runs", 3, "medians and ranges are printed")
	flags.IntVar(&b.rate, "rate", 400, "renewals a second while they are paced; the authority admits 500")
	if err := flags.Parse(args); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d agents, %d runs, load %s", b.agents, b.runs, load)
	rows := map[string][]float64{}
	for range b.runs {
		if err := b.run(rows); err != nil {
			return err
		}
	}
	for _, name := range rowsOfAuthority {
		all := slices.Sorted(slices.Values(rows[name]))
		fmt.Printf("%-58s %10.2f  (%.2f to %.2f, n=%d)\n", name, middle(all), all[0], all[len(all)-1], len(all))
	}
	load, _ = os.ReadFile("/proc/loadavg")
	fmt.Printf("load at the end %s", load)
	return nil
}

const (
	rowFresh   = "renewal over a new connection, discovery's CPU ms"
	rowFreshP  = "renewal over a new connection, p99 ms"
	rowFreshM  = "renewal over a new connection, p50 ms"
	rowAll     = "all agents over new connections, discovery's CPU s"
	rowKept    = "renewal over a connection that stays, discovery's CPU ms"
	rowStorm   = "storm: s until all agents have a certificate"
	rowStormT  = "storm: attempts of an agent"
	rowStormC  = "storm: discovery's CPU s"
	rowStormR  = "storm: certificates in its busiest second"
	rowStormL  = "storm: agents without a certificate at the end"
	stormLimit = 5 * time.Minute

	pacedAtOnce = 16 // renewals under way
)

var rowsOfAuthority = []string{rowFresh, rowAll, rowFreshM, rowFreshP, rowKept, rowStorm, rowStormR, rowStormT, rowStormC, rowStormL}

func (b authorityBench) run(rows map[string][]float64) error {
	dir, err := os.MkdirTemp("", "adsbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var ports [3]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	server := exec.Command(b.discovery, "serve", "--configDir", dir, "--ca", "--caDir", filepath.Join(dir, "ca"),
		"--secureGRPCAddr", ports[0], "--httpAddr", ports[1], "--grpcAddr", ports[2])
	var log bytes.Buffer
	server.Stderr = &headOf{&log}
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	c := &child{cmd: server}
	r, err := newRenewals(filepath.Join(dir, "ca"), ports[0], b.agents)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	set := func(name string, value float64) { rows[name] = append(rows[name], value) }

	before := c.cpu()
	times, err := b.paced(b.agents, func(n int) error { return r.fresh(n) })
	if err != nil {
		return err
	}
	used := c.cpu() - before
	set(rowFresh, ms(used)/float64(b.agents))
	set(rowAll, used.Seconds())
	set(rowFreshM, times[len(times)/2])
	set(rowFreshP, times[len(times)*99/100])

	time.Sleep(3 * time.Second) // the authority's allowance is whole again
	before = c.cpu()
	kept := b.agents / 5
	if _, err := b.paced(kept, r.kept); err != nil {
		return err
	}
	set(rowKept, ms(c.cpu()-before)/float64(kept))

	time.Sleep(3 * time.Second)
	before = c.cpu()
	s := r.storm(stormLimit)
	set(rowStorm, s.took.Seconds())
	set(rowStormR, float64(s.busiest))
	set(rowStormT, float64(s.attempts)/float64(b.agents))
	set(rowStormC, (c.cpu() - before).Seconds())
	set(rowStormL, float64(s.lost))
	if s.lost > 0 {
		return fmt.Errorf("%d agents have no certificate after %s: %w", s.lost, stormLimit, s.fault)
	}
	return nil
}

// paced renews n times at the rate, and returns the times that took, sorted, in ms.
func (b authorityBench) paced(n int, renew func(n int) error) ([]float64, error) {
	times, faults := make([]float64, n), make([]error, n)
	var all sync.WaitGroup
	var faulty atomic.Int64
	room := make(chan struct{}, pacedAtOnce)
	for i := range n {
		room <- struct{}{}
		time.Sleep(time.Second / time.Duration(b.rate)) // never more in a second, also after this program had to wait
		all.Go(func() {
			defer func() { <-room }()
			from := time.Now()
			if faults[i] = renew(i); faults[i] != nil {
				faulty.Add(1)
			}
			times[i] = ms(time.Since(from))
		})
	}
	all.Wait()
	if faulty.Load() > 0 {
		return nil, fmt.Errorf("%d of %d renewals failed: %w", faulty.Load(), n, cmp.Or(faults...))
	}
	slices.Sort(times)
	return times, nil
}

// headOf keeps the beginning of a log: discovery writes a line for each certificate.
type headOf struct{ to *bytes.Buffer }

func (t *headOf) Write(text []byte) (int, error) {
	if t.to.Len() < 4096 {
		t.to.WriteString(strings.ToValidUTF8(string(text), "?"))
	}
	return len(text), nil
}
