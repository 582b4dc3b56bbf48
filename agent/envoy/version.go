package envoy

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// askTimeout is far above the 10 to 50 ms that Envoy takes, and below the acceptable delay of a start.
const askTimeout = 5 * time.Second

// HotRestartVersion returns "11.104" and the like. Only Envoys with equal versions hand over to each other by hot
// restart.
func HotRestartVersion(ctx context.Context, binary string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask(ctx, binary, hotrestart.VersionFlag)
	if err != nil {
		return "", fmt.Errorf("ask %s %s: %w", binary, hotrestart.VersionFlag, err)
	}
	if version, ok := hotrestart.ParseVersion(answer); ok {
		return version, nil
	}
	return "", fmt.Errorf("ask %s %s: %.200q is no answer of an Envoy", binary, hotrestart.VersionFlag, answer)
}

// mostVersions is how many binaries are remembered.
const mostVersions = 8

// version returns the same of a binary that may have been asked before: a handover to the same one starts no process for it.
func (p *Proxy) version(ctx context.Context, binary string) (string, error) {
	print, err := Fingerprint(binary)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	known := p.versions[print]
	p.mu.Unlock()
	if known != "" {
		return known, nil
	}
	answer, err := HotRestartVersion(ctx, binary)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.versions == nil || len(p.versions) >= mostVersions {
		p.versions = map[string]string{}
	}
	p.versions[print] = answer
	return answer, nil
}
