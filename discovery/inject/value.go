package inject

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Checks of values, by the rules of pod-init and the agent. Each returns the fault, or nil.

func isBool(s string) error {
	if s != "true" && s != "false" {
		return fmt.Errorf("is %.40q, want true or false", s)
	}
	return nil
}

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
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 || s[0] == '+' {
		return fmt.Errorf("is %.40q, want a port, 1 to 65535", s)
	}
	return nil
}

// arePorts accepts "*", an empty text, or numbers and ranges separated by commas.
func arePorts(s string) error {
	if s == "*" || s == "" {
		return nil
	}
	for item := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if err := isPort(from); err != nil {
			return fmt.Errorf("%.40q %w", item, errors.New("is no port: want *, or ports and ranges parted by commas"))
		}
		if isRange && isPort(to) != nil {
			return fmt.Errorf("%.40q is no range of ports", item)
		}
	}
	return nil
}

// areRanges accepts "*", an empty text, or CIDRs and addresses separated by commas.
func areRanges(s string) error {
	if s == "*" || s == "" {
		return nil
	}
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		_, notRange := netip.ParsePrefix(item)
		address, notAddress := netip.ParseAddr(item)
		if notRange != nil && (notAddress != nil || address.Zone() != "") {
			return fmt.Errorf("%.60q is no range: want *, or CIDRs parted by commas", item)
		}
	}
	return nil
}

var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,15}$`)

func areInterfaces(s string) error {
	for item := range strings.SplitSeq(s, ",") {
		if s != "" && !interfaceName.MatchString(strings.TrimSpace(item)) {
			return fmt.Errorf("%.40q is no name of a network interface", item)
		}
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
