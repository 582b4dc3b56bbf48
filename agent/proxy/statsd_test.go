package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/pilotlight/pilotlight/bootstrap"
)

func TestResolveStatsd(t *testing.T) {
	known := map[string][]netip.Addr{
		"statsd.monitoring": {netip.MustParseAddr("::ffff:10.0.0.9"), netip.MustParseAddr("fd00::9")},
		"six":               {netip.MustParseAddr("fd00::9")},
	}
	lookup := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if found := known[host]; found != nil {
			return found, nil
		}
		return nil, errors.New("no such host")
	}
	for given, want := range map[string]string{
		"statsd.monitoring:9125": "10.0.0.9:9125", "six:9125": "[fd00::9]:9125", "none:9125": "", "10.1.1.1:9125": "10.1.1.1:9125", "": "",
	} {
		if got := resolveStatsd(t.Context(), address(t, given), lookup, slog.New(slog.DiscardHandler)); got != address(t, want) {
			t.Errorf("%q: got %v, want %q", given, got, want)
		}
	}
}

// address reads host:port, or nothing.
func address(t *testing.T, text string) bootstrap.Address {
	t.Helper()
	if text == "" {
		return bootstrap.Address{}
	}
	a, err := bootstrap.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
