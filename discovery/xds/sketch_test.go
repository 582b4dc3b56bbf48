package xds

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A sketch is equal to the whole build in each scenario, cluster by cluster; and it makes none that is not asked for.
func TestSketchIsTheBuild(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	made := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		proxy, settings := scenarioProxy(t, strings.TrimPrefix(first, "# "))
		objects, _ := config.Decode(file, data)
		m := model.New(slices.Values([]model.Group{{Objects: append(objects, settings...)}}))
		v := ViewOf(proxy).Outbound
		whole, s := BuildOutbound(m, v), SketchOf(m, v)
		if !v.Proxyless && !whole.passes && len(s.Clusters) > 2 {
			t.Errorf("%s: the sketch has %d clusters before one is asked for", file, len(s.Clusters))
		}
		for _, want := range whole.Clusters {
			wanted, endpoints := whole.Cluster(want.Name)
			c, e := s.Cluster(want.Name)
			if made++; wanted != want || !proto.Equal(c, want) || !proto.Equal(e, endpoints) {
				t.Errorf("%s: cluster %s is %v with %v, want %v with %v", file, want.Name, c, e, want, endpoints)
			}
		}
		if c, e := s.Cluster("outbound|1||none.test"); c != nil || e != nil {
			t.Errorf("%s: there is a cluster of no service: %v", file, c)
		}
		same := func(what string, equal bool) {
			if !equal {
				t.Errorf("%s: the sketch has other %s", file, what)
			}
		}
		same("listeners", equalAll(s.Listeners, whole.Listeners))
		same("routes", equalAll(s.Routes, whole.Routes))
	}
	if made < 200 {
		t.Errorf("only %d clusters were seen", made)
	}
}

func equalAll[T proto.Message](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return proto.Equal(x, y) })
}
