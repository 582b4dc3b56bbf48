package envoy

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// askTimeout is far above the 10 to 50 ms that Envoy takes, and below the acceptable delay of a start.
const askTimeout = 5 * time.Second

// The answers of Envoy 1.40: on stderr "11.104", the version of its hot-restart protocol and the size of its shared
// memory (hot_restart_impl.cc), and on stdout "envoy  version: 9e55…f23/1.40.0/Clean/RELEASE/BoringSSL"
// (source/common/version).
const (
	hotRestartVersion = `^(\d+\.\d+)$`
	versionLine       = `  version: [0-9a-f]+/(\d+\.\d+\.\d+(?:-[\w.-]+)?)/\w+/\w+/[\w-]+$`
)

// HotRestartVersion returns "11.104" and the like. Only Envoys with equal versions hand over to each other by hot
// restart.
func HotRestartVersion(ctx context.Context, binary string) (string, error) {
	return askVersion(ctx, binary, "--hot-restart-version", hotRestartVersion)
}

// Version returns "1.40.0" and the like.
func Version(ctx context.Context, binary string) (string, error) {
	return askVersion(ctx, binary, "--version", versionLine)
}

// askVersion returns the matching part of the binary's answer. It compiles the pattern on each call, since it is called
// before handovers and never at a start.
func askVersion(ctx context.Context, binary, flag, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := ask(ctx, binary, flag)
	if err != nil {
		return "", fmt.Errorf("ask %s %s: %w", binary, flag, err)
	}
	if len(answer) == 1 {
		if match := regexp.MustCompile(line).FindStringSubmatch(answer[0]); match != nil {
			return match[1], nil
		}
	}
	return "", fmt.Errorf("ask %s %s: %.200q is no answer of an Envoy", binary, flag, answer)
}
