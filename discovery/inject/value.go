package inject

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Checks of values, by the rules of pod-init and the agent. Each returns the fault, or nil.

// isBool accepts what Istio does: true, True, TRUE, t, T, 1, and the same of false.
func isBool(s string) error {
	if _, err := strconv.ParseBool(s); err != nil {
		return fmt.Errorf("is %.40q, want true or false", s)
	}
	return nil
}

func isTrue(s string) bool { on, _ := strconv.ParseBool(s); return on }

func isMode(s string) error { return isOneOf(s, "REDIRECT", "TPROXY", "NONE") }

func isLogLevel(s string) error {
	return isOneOf(s, "trace", "debug", "info", "warning", "warn", "error", "err", "critical", "off")
}

func isOneOf(s string, words ...string) error {
	if !slices.Contains(words, s) {
		return fmt.Errorf("is %.40q, want one of %s", s, strings.Join(words, ", "))
	}
	return nil
}

func isPort(s string) error {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return fmt.Errorf("is %.40q, want a port, 1 to 65535", s)
	}
	return nil
}

func isAddress(s string) error {
	colon := strings.LastIndexByte(s, ':')
	if colon < 1 || isPort(s[colon+1:]) != nil {
		return fmt.Errorf("is %.80q, want host:port", s)
	}
	host := s[:colon]
	if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
		if _, err := netip.ParseAddr(strings.TrimSuffix(inside, "]")); err != nil || !strings.HasSuffix(inside, "]") {
			return fmt.Errorf("is %.80q, want host:port, such as [::1]:15010", s)
		}
	} else if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("$/:[]", r) || r >= 0x7f }) {
		return fmt.Errorf("is %.80q, want host:port", s)
	}
	return nil
}

const longestDrain = time.Hour // of the agent

func isDuration(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < 0 || d > longestDrain {
		return fmt.Errorf("is %.40q, want a duration such as 45s, at most 1h", s)
	}
	return nil
}

func isWholeSeconds(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < time.Second || d > longestDrain || d%time.Second != 0 {
		return fmt.Errorf("is %.40q, want whole seconds such as 45s, 1s to 1h", s)
	}
	return nil
}

func isNumber(s string) error {
	if n, err := strconv.ParseInt(s, 10, 32); err != nil || n < 0 || s[0] == '+' {
		return fmt.Errorf("is %.40q, want a whole number", s)
	}
	return nil
}

// isText accepts texts without control characters, which can be one argument and a part of a log line.
func isText(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%.60q has control characters", s)
	}
	return nil
}

func isImage(s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("is %.80q, want the name of an image", s)
	}
	return nil
}

// literal escapes a text for an argument or variable, in which Kubernetes replaces $(NAME) and $$.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }
