package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// config reads what Envoy shall run now.
func (p *proxy) config() (agent.Config, error) {
	binary, err := fingerprint(p.binary)
	if err != nil {
		return agent.Config{}, err
	}
	if path := p.settings.customConfigFile; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return agent.Config{}, fmt.Errorf("--customConfigFile: %w", err)
		}
		format := strings.TrimPrefix(filepath.Ext(path), ".")
		return agent.Config{Bootstrap: string(text), Format: format, Binary: binary}, nil
	}
	text, err := bootstrap.Render(p.params)
	if err != nil {
		return agent.Config{}, err
	}
	return agent.Config{Bootstrap: string(text), Format: "json", Binary: binary}, nil
}

// fingerprint tells one file from another that has replaced it. The contents of a binary of 100 MB are not worth
// reading for that.
func fingerprint(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%d-%d-%d", inode, info.Size(), info.ModTime().UnixNano()), nil
}

// desire keeps the supervisor, which has first already, told of what Envoy shall run: at each tick of the watched files,
// and when certificates need a new epoch. What cannot be read is said once, and changes nothing.
func (p *proxy) desire(ctx context.Context, first agent.Config, ticks <-chan struct{}, certificates <-chan string, configCh chan<- agent.Config) {
	desired, said := first, ""
	for {
		for changed := false; !changed; {
			next := desired
			select {
			case <-ctx.Done():
				return
			case next.Certificates = <-certificates:
			case <-ticks:
				read, err := p.config()
				if err != nil {
					if said != err.Error() {
						p.log.Warn("read what Envoy shall run; what runs, stays", "error", err)
					}
					said = err.Error()
					continue
				}
				said = ""
				read.Certificates = desired.Certificates
				next = read
			}
			changed = next != desired
			desired = next
		}
		select {
		case configCh <- desired:
		case <-ctx.Done():
			return
		}
	}
}
