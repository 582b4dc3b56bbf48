package envoy

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// askTimeout is far above the 10 to 50 ms that Envoy takes, and below the acceptable delay of a start.
const askTimeout = 5 * time.Second

// hotRestartVersion matches the answer of Envoy 1.40, "11.104": the version of its hot-restart protocol and the size of its
// shared memory (hot_restart_impl.cc).
const hotRestartVersion = `^(\d+\.\d+)$`

// HotRestartVersion returns "11.104" and the like. Only Envoys with equal versions hand over to each other by hot
// restart.
//
// It compiles the pattern on each call, since it is called before handovers and never at a start.
func HotRestartVersion(ctx context.Context, binary string) (string, error) {
	const flag = "--hot-restart-version"
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask(ctx, binary, flag)
	if err != nil {
		return "", fmt.Errorf("ask %s %s: %w", binary, flag, err)
	}
	if len(answer) == 1 {
		if match := regexp.MustCompile(hotRestartVersion).FindStringSubmatch(answer[0]); match != nil {
			return match[1], nil
		}
	}
	return "", fmt.Errorf("ask %s %s: %.200q is no answer of an Envoy", binary, flag, answer)
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
