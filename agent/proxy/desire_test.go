package proxy

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pilotlight/pilotlight/agent"
)

// The desired Envoy follows its files and its certificates; a file that cannot be read is logged once, and changes
// nothing.
func TestDesiredFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	custom, binary := filepath.Join(dir, "custom.json"), filepath.Join(dir, "envoy")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(custom, "1")
	put(binary, "#!/bin/sh")
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		want := desired{binary: binary, source: Source{Custom: Input{Name: "--customConfigFile", Path: custom}}}
		first, err := want.read(agent.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ticks, certificates, configCh := make(chan struct{}), make(chan string), make(chan agent.Config, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			want.feed(ctx, first, ticks, certificates, func(string) {}, configCh, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		told := func() (configs []agent.Config) {
			synctest.Wait()
			for len(configCh) > 0 {
				configs = append(configs, <-configCh)
			}
			return configs
		}
		ticks <- struct{}{}
		if got := told(); got != nil {
			t.Errorf("nothing has changed: %+v", got)
		}
		put(custom, "2")
		ticks <- struct{}{}
		if got := told(); len(got) != 1 || got[0].Bootstrap != "2" || got[0].Format != "json" {
			t.Errorf("the bootstrap has changed: %+v", got)
		}
		certificates <- "hash"
		if got := told(); len(got) != 1 || got[0].Bootstrap != "2" || got[0].Certificates != "hash" {
			t.Errorf("the certificates have changed: %+v", got)
		}
		if err := os.Remove(custom); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ticks <- struct{}{}
		}
		if got := told(); got != nil || strings.Count(log.String(), "the running Envoy keeps its own") != 1 {
			t.Errorf("the bootstrap is gone: %+v, log\n%s", got, log.String())
		}
		put(custom, "3")
		ticks <- struct{}{}
		if got := told(); len(got) != 1 || got[0].Bootstrap != "3" || got[0].Certificates != "hash" {
			t.Errorf("the bootstrap is back: %+v", got)
		}
		cancel()
		<-done
	})
}
