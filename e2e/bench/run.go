package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 30 * time.Second

// run is the bench's state: where things are, and what was measured, one value a run.
type run struct {
	lab.Lab
	discovery *lab.Discovery
	bootstrap []byte // the agent's, which the bare Envoy gets too
	lives     int    // runs that measure a whole life too

	forked, ready, again, stop, orphan, rss []float64
	bareReady, bareStop                     []float64
	floorForked, floorReady                 []float64 // of the least parent that Go can make: see package floor
	later                                   []float64 // ready of the agent less that of the bare Envoy of the same turn
	probed                                  []float64
	whole                                   lifecycle

	relayed, direct way       // sidecars whose stream to discovery goes through the agent, and others
	through         []float64 // ready of the former less that of the latter of the same turn
}

// lifecycle is what was measured of whole lives.
type lifecycle struct {
	handover, failed, unready, thawed, answers []float64
	idleCPU, wakeups                           []float64
}

func (b *run) sidecar(name string, flags ...string) (*lab.Sidecar, string, error) {
	port, err := lab.FreePort()
	if err != nil {
		return nil, "", err
	}
	s, err := b.Sidecar(lab.Workload{
		Name: name, App: "details", Version: "v1", IP: lab.Addresses() + "12", ProxyPort: port, Discovery: b.discovery.GRPC,
		Flags: append([]string{"--logFormat", "json"}, flags...),
	})
	if err != nil {
		return nil, "", err
	}
	return s, filepath.Join(s.ConfigPath, "admin-rev0-*.sock"), nil
}

// prepare takes the bootstrap from a first agent, which also warms the caches for both. It leads to discovery, not to a socket of the agent's.
func (b *run) prepare() error {
	s, socket, err := b.sidecar("first", "--lastGood", "off")
	if err != nil {
		return err
	}
	defer s.Stop(stopLimit)
	if err := awaitReady(socket); err != nil {
		return fmt.Errorf("%w:\n%s", err, s.Log())
	}
	b.bootstrap, err = os.ReadFile(filepath.Join(s.ConfigPath, "envoy-rev0.json"))
	if err != nil {
		return err
	}
	sockets, err := filepath.Glob(socket)
	if err != nil {
		return err
	}
	if len(sockets) != 1 {
		return fmt.Errorf("%s: %q, want one socket", socket, sockets)
	}
	b.bootstrap = bytes.ReplaceAll(b.bootstrap, []byte(sockets[0]), []byte(filepath.Join(b.Dir, "bare.sock")))
	return nil
}

// both measures one life of a bare Envoy and one of an agent.
func (b *run) both(i int) error {
	for _, measure := range []func() error{b.bare, b.floor, func() error { return b.agent(fmt.Sprintf("run%d", i)) }} {
		if err := measure(); err != nil {
			return err
		}
	}
	b.later = append(b.later, b.ready[i]-b.bareReady[i])
	if err := b.ways(i); err != nil {
		return err
	}
	if i >= b.lives {
		return nil
	}
	return b.life(fmt.Sprintf("life%d", i))
}

// bare measures an Envoy without a parent that does anything.
func (b *run) bare() error {
	return b.alone(&b.bareReady, &b.bareStop)
}

// floor measures the least parent.
func (b *run) floor() error {
	var stops []float64
	began := time.Now()
	if err := b.alone(&b.floorReady, &stops, filepath.Join(b.Dir, "floor")); err != nil {
		return err
	}
	forked, err := loggedAt(filepath.Join(b.Dir, "bare.log"), "Envoy started")
	if err != nil {
		return err
	}
	b.floorForked = append(b.floorForked, float64(forked.Sub(began).Microseconds())/1e3)
	return nil
}

// alone starts and stops an Envoy by the bootstrap of the agent's, behind a parent or none.
func (b *run) alone(ready, stop *[]float64, parent ...string) error {
	config, socket := filepath.Join(b.Dir, "bare.json"), filepath.Join(b.Dir, "bare.sock")
	if err := os.WriteFile(config, b.bootstrap, 0o600); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(b.Dir, "bare.log")) // what the one before has said
	base := lab.BaseID()
	defer os.Remove(fmt.Sprintf("/dev/shm/envoy_shared_memory_%d0", base))
	began := time.Now()
	p, err := lab.Start(lab.Spec{Name: "bare", Dir: b.Dir, Argv: append(parent,
		b.Envoy, "--config-path", config, "--base-id", strconv.Itoa(base), "--concurrency", "1", "--log-level", "warning",
	)})
	if err != nil {
		return err
	}
	if err := awaitReady(socket); err != nil {
		p.Stop(stopLimit)
		return err
	}
	*ready = append(*ready, since(began))
	began = time.Now()
	p.Stop(stopLimit)
	*stop = append(*stop, since(began))
	return os.Remove(socket)
}

func (b *run) agent(name string) error {
	began := time.Now()
	s, socket, err := b.sidecar(name)
	if err != nil {
		return err
	}
	defer s.Stop(stopLimit)
	if err := awaitReady(socket); err != nil {
		return fmt.Errorf("%w:\n%s", err, s.Log())
	}
	b.ready = append(b.ready, since(began))
	forked, err := loggedAt(s.LogFile, "Envoy started")
	if err != nil {
		return err
	}
	b.forked = append(b.forked, float64(forked.Sub(began).Microseconds())/1e3)
	if err := b.crash(s, socket, &b.again); err != nil {
		return err
	}
	began = time.Now()
	s.Stop(stopLimit)
	b.stop = append(b.stop, since(began))
	return b.kill(name + "-orphan")
}

// crash kills Envoy and waits for the next one.
func (b *run) crash(s *lab.Sidecar, socket string, to *[]float64) error {
	// The bench sees Envoy serve some milliseconds before its agent, which would take a death by then for one at its start.
	if err := lab.Eventually(stopLimit, func() error { _, err := loggedAt(s.LogFile, "Envoy serves"); return err }); err != nil {
		return err
	}
	envoy, err := s.Envoy()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := syscall.Kill(envoy, syscall.SIGKILL); err != nil {
		return err
	}
	for lab.Alive(envoy) {
		time.Sleep(time.Millisecond)
	}
	if err := awaitReady(socket); err != nil {
		return fmt.Errorf("%w:\n%s", err, s.Log())
	}
	*to = append(*to, since(began))
	return nil
}

// kill ends an agent as no agent can prevent.
func (b *run) kill(name string) error {
	s, socket, err := b.sidecar(name)
	if err != nil {
		return err
	}
	if err := awaitReady(socket); err != nil {
		s.Stop(stopLimit)
		return err
	}
	envoy, err := s.Envoy()
	if err != nil {
		return err
	}
	began := time.Now()
	s.Signal(syscall.SIGKILL)
	for lab.Alive(envoy) {
		if time.Since(began) > stopLimit {
			return fmt.Errorf("process %d, an Envoy, lives %s after its agent was killed", envoy, stopLimit)
		}
		time.Sleep(time.Millisecond)
	}
	b.orphan = append(b.orphan, since(began))
	return nil
}

// awaitReady asks an admin socket every millisecond, on a new connection each time.
func awaitReady(socket string) error {
	client := lab.OverUnix(socket)
	for deadline := time.Now().Add(stopLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		response, err := client.Get("http://envoy/ready")
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("%s: not ready within %s", socket, stopLimit)
}

// loggedAt returns when the agent first logged a message.
func loggedAt(path, message string) (time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return time.Time{}, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == message {
			return line.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s: has no line %q", path, message)
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1e3 }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func describe(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g [%.3g–%.3g]", median(values), slices.Min(values), slices.Max(values))
}

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
