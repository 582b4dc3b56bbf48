package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	startTimeout = time.Minute      // for everything to be ready
	stopGrace    = 10 * time.Second // for one phase to leave after SIGTERM
	pollInterval = 50 * time.Millisecond
)

// demo is one running plan.
type demo struct {
	options
	plan
	started [][]*process  // by phase
	ended   chan *process // each process once, when it is gone
	stdout  io.Writer
}

// run runs the mesh until ctx is done. It returns when every process that it started is gone; an error says why the
// mesh did not come up, or did not stay.
func run(ctx context.Context, o options, stdout io.Writer) (err error) {
	d := &demo{options: o, plan: newPlan(o), stdout: stdout}
	if err := d.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(err == nil)) }()
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it was up
		}
		return err
	}
	if err := d.help(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-d.ended:
		return p.explain()
	}
}

// prepare makes the run folder, and the copy of the configuration where the addresses are others.
func (d *demo) prepare() error {
	if err := os.MkdirAll(d.run, 0o755); err != nil {
		return err
	}
	d.ended = make(chan *process, len(slices.Concat(d.phases...)))
	if d.plan.config == d.options.config {
		return nil
	}
	if d.further != "" {
		if err := copyConfig(d.further, d.plan.config, d.addresses); err != nil {
			return err
		}
	}
	if d.consulAt == "" {
		return copyConfig(d.options.config, d.plan.config, d.addresses)
	}
	if err := d.consulThere(); err != nil {
		return err
	}
	if err := os.WriteFile(d.consulAt, d.services, 0o644); err != nil {
		return err
	}
	if err := copyConfig(d.options.config, d.plan.config, d.addresses, ".default.svc.cluster.local", "."+consulDomain); err != nil {
		return err
	}
	return os.Remove(filepath.Join(d.plan.config, "services.yaml")) // Consul has them
}

// copyConfig copies the YAML files of from to a new folder, their addresses moved to another prefix, and with further texts replaced,
// given as pairs.
func copyConfig(from, to, addresses string, further ...string) error {
	replace := strings.NewReplacer(append([]string{defaultAddresses, addresses}, further...)...)
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: holds no *.yaml file", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(replace.Replace(string(text))), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// start brings up one phase after another, and last the page.
func (d *demo) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for i, phase := range d.phases {
		d.started = append(d.started, nil)
		for _, s := range phase {
			p, err := start(s, d.run, d.ended)
			if err != nil {
				return err
			}
			last := len(d.started) - 1
			d.started[last] = append(d.started[last], p)
		}
		for _, s := range phase {
			if err := d.await(ctx, s.name, s.ready); err != nil {
				return err
			}
		}
		if i == 0 {
			if err := makeTokens(ctx, d.tokens); err != nil {
				return err
			}
		}
	}
	return d.await(ctx, "the product page", d.page+"/api/v1/products/0")
}

// await waits until url answers 200, a process ends, or ctx is done.
func (d *demo) await(ctx context.Context, name, url string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		found := probe(ctx, url)
		if found == nil {
			return nil
		}
		select {
		case p := <-d.ended:
			return p.explain()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; logs are in %s", name, found, d.run)
		case <-tick.C:
		}
	}
}

// probe asks url once, on a connection of its own: a kept one would outlive whom it was made for.
func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// stop ends what was started, last phase first. After a clean run only the logs stay.
func (d *demo) stop(clean bool) error {
	var killed []string
	for _, phase := range slices.Backward(d.started) {
		killed = append(killed, stop(phase, stopGrace)...)
	}
	if len(killed) > 0 {
		return fmt.Errorf("stop: killed after %v: %s", stopGrace, strings.Join(killed, ", "))
	}
	if !clean {
		return nil // what the agents wrote may explain it
	}
	fmt.Fprintf(d.stdout, "\nStopped. The logs stay in %s.\n", d.run)
	return d.cleanUp()
}

// cleanUp removes what the mesh needed only while it ran.
func (d *demo) cleanUp() error {
	var err error
	for _, s := range d.sidecars {
		err = errors.Join(err, os.RemoveAll(s.ConfigPath))
	}
	if d.plan.config != d.options.config {
		err = errors.Join(err, os.RemoveAll(d.plan.config))
	}
	if d.consulAt != "" {
		err = errors.Join(err, os.Remove(d.consulAt))
	}
	if d.ca != "" {
		err = errors.Join(err, os.RemoveAll(d.ca))
	}
	return err
}
