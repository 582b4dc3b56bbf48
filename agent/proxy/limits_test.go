package proxy

import (
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// Limits that no flag gives come from PROXY_CONFIG, else from the control group.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		config       string
		givenWorkers int
		givenLimit   uint64
		memory       int64
		workers      int
		limit        uint64
		derived      []string
	}{
		{"", 0, 0, 1000 << 20, 2, 900 << 20, []string{"concurrency=2", "memoryLimit=943718400"}},
		{"", 7, 1 << 30, 512 << 20, 7, 1 << 30, nil},
		{"", 0, 0, 0, 2, 0, []string{"concurrency=2"}},
		{"concurrency: 3", 0, 0, 0, 3, 0, []string{"concurrency=3"}},
		{"concurrency: 0", 0, 0, 0, 8, 0, []string{"concurrency=8"}},
		{"concurrency: 3", 5, 0, 0, 5, 0, nil},
	} {
		given, err := identity.ReadProxyConfig(identity.Environment{"PROXY_CONFIG": test.config})
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Envoy: envoy.Options{Concurrency: test.givenWorkers}, Params: bootstrap.Params{MemoryLimit: test.givenLimit}}
		got := limitsOf(c, given, cgroup.Limits{CPUs: 2.5, Memory: test.memory}, 8)
		if got.workers != test.workers || got.memory != test.limit {
			t.Errorf("%+v: got %d workers, %d bytes", test, got.workers, got.memory)
		}
		var names []string
		for _, d := range got.derived {
			names = append(names, d.Setting+"="+d.Value)
		}
		if !slices.Equal(names, test.derived) {
			t.Errorf("%+v: worked out %q", test, names)
		}
	}
}
