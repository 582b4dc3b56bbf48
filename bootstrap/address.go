package bootstrap

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Address is a host with a port; the zero value is none.
type Address struct {
	Host string // DNS name or IP address, the latter without brackets
	Port int
}

// ParseAddress reads host:port, the port 1 to 65535; an IPv6 address is in brackets.
func ParseAddress(text string) (Address, error) {
	host, port, found := cutLast(text, ":")
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		host, bracketed = strings.CutSuffix(inner, "]")
		found = found && bracketed
	} else if strings.Contains(host, ":") {
		found = false // an IPv6 address without brackets
	}
	number, err := strconv.Atoi(port)
	a := Address{Host: host, Port: number}
	if !found || err != nil || a.check() != nil {
		return Address{}, fmt.Errorf("%q: want host:port, such as pilot:15010 or [::1]:15010", text)
	}
	return a, nil
}

// IsIP reports whether Envoy needs no DNS to find the host.
func (a Address) IsIP() bool {
	_, err := netip.ParseAddr(a.Host)
	return err == nil
}

// IsSet tells an address from none.
func (a Address) IsSet() bool { return a != Address{} }

// String is host:port as ParseAddress reads it, empty for none.
func (a Address) String() string {
	switch {
	case !a.IsSet():
		return ""
	case strings.Contains(a.Host, ":"):
		return fmt.Sprintf("[%s]:%d", a.Host, a.Port)
	}
	return fmt.Sprintf("%s:%d", a.Host, a.Port)
}

func (a Address) check() error {
	if a.Host == "" {
		return fmt.Errorf("has no host")
	}
	if a.Port < 1 || a.Port > 65535 {
		return fmt.Errorf("port %d: want 1 to 65535", a.Port)
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
