package proxy

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/identity"
)

func TestAwaitPrivate(t *testing.T) {
	public, private := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("fd00::1")
	for _, test := range []struct {
		name  string
		after time.Duration // when the private one appears
		stop  time.Duration // when ctx ends, 0 for never
		want  int           // addresses
		took  time.Duration
	}{
		{"there already", 0, 0, 2, 0},
		{"later", 30 * time.Second, 0, 2, 30 * time.Second},
		{"never", time.Hour, 0, 1, identity.AddressLimit},
		{"asked to stop", time.Hour, time.Second, 1, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.stop > 0 {
					time.AfterFunc(test.stop, cancel)
				}
				got, err := awaitPrivate(ctx, func() ([]netip.Addr, error) {
					if time.Since(start) >= test.after {
						return []netip.Addr{public, private}, nil
					}
					return []netip.Addr{public}, nil
				})
				if len(got) != test.want || err != nil || time.Since(start) != test.took {
					t.Errorf("got %v, %v after %s; want %d after %s", got, err, time.Since(start), test.want, test.took)
				}
			})
		})
	}
}

func TestUsableAddresses(t *testing.T) {
	var addresses []net.Addr
	for _, text := range []string{"fe80::1/64", "fd00::1/64", "10.0.0.2/8", "169.254.0.1/16", "10.0.0.1/8"} {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	want := []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	if got := usable(addresses); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
