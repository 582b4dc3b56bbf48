package statedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/golden"
)

// The lines of a file stay as they are when a field is renamed in Go.
func TestStoredLines(t *testing.T) {
	t.Run("header", func(t *testing.T) { golden.Stored(t, golden.Filled[header]()) })
	t.Run("end", func(t *testing.T) { golden.Stored(t, golden.Filled[end]()) })
	t.Run("record", func(t *testing.T) {
		golden.Stored(t, golden.Filled[record](model.RightSuffix, model.PreferZone, model.HealthDraining, model.ResolutionDNS, model.GRPCWeb))
	})
}

// numbered are the values that files have as numbers.
type numbered struct {
	Right  map[string]model.Right  `json:"right"`
	Prefer map[string]model.Prefer `json:"prefer"`
	Health map[string]model.Health `json:"health"`
}

// A number in a file keeps its meaning.
func TestStoredNumbers(t *testing.T) {
	all := numbered{
		Right:  map[string]model.Right{"full": model.RightFull, "suffix": model.RightSuffix, "guest": model.RightGuest},
		Prefer: map[string]model.Prefer{"none": model.PreferNone, "zone": model.PreferZone, "node": model.PreferNode},
		Health: map[string]model.Health{
			"unknown": model.HealthUnknown, "healthy": model.HealthHealthy, "draining": model.HealthDraining, "unhealthy": model.HealthUnhealthy,
			"terminating": model.HealthTerminating, "unready": model.HealthUnready,
		},
	}
	golden.StoredNumbers(t, all)
}

// What a line does not say of a right, or of a policy, opens nothing.
func TestWhatIsNotStoredIsNarrow(t *testing.T) {
	for field, want := range map[string]model.Right{
		``: model.RightGuest, `,"Right":null`: model.RightGuest, `,"Right":2`: model.RightGuest, `,"Right":1`: model.RightSuffix, `,"Right":0`: model.RightFull,
	} {
		if _, got, err := decode([]byte(`{"Key":"k","Services":[{"Host":"h"` + field + `}]}`)); err != nil || got.Services[0].Right != want {
			t.Errorf("a service with %q: %+v, %v, want the right %d", field, got, err, want)
		}
	}
	for _, field := range []string{`,"Right":3`, `,"Right":-1`, `,"Right":256`, `,"Right":"full"`} {
		if _, got, err := decode([]byte(`{"Key":"k","Services":[{"Host":"h"` + field + `}]}`)); err == nil {
			t.Errorf("a service with %q is read as %+v", field, got.Services[0])
		}
	}
	for field, want := range map[string]bool{``: true, `,"Closed":true`: true, `,"Closed":false`: false} {
		line := `{"Key":"k","Objects":[{"Meta":{"Kind":"AuthorizationPolicy"` + field + `},"Type":"istio.security.v1beta1.AuthorizationPolicy"}]}`
		if _, got, err := decode([]byte(line)); err != nil || got.Objects[0].Closed != want {
			t.Errorf("a policy with %q: %+v, %v, want closed %t", field, got, err, want)
		}
	}
}

// testdata/groups.state was written by the first version of the format.
func TestAStoredFileIsRead(t *testing.T) {
	path := filepath.Join("testdata", "groups.state")
	if _, err := os.Stat(path); os.IsNotExist(err) && golden.Updating() {
		if err := os.WriteFile(path, []byte(written1(t, groups())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h, got, err := read(file, maxFile)
	if err != nil || h.Source != "a" {
		t.Fatal(h, err)
	}
	if diff := cmp.Diff(groups(), got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
