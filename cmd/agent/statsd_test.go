package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"testing"
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
		p := proxy{settings: &settings{statsdUDPAddress: given}, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		if p.resolveStatsd(t.Context(), lookup); p.settings.statsdUDPAddress != want {
			t.Errorf("%q: got %q, want %q", given, p.settings.statsdUDPAddress, want)
		}
	}
}
