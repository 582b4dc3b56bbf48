package bootstrap

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pilotlight/pilotlight/internal/golden"
	"github.com/pilotlight/pilotlight/node"
)

func sidecar() Params {
	return Params{
		Node:           node.ID{Role: node.Sidecar, IP: "127.0.0.13", Name: "reviews-v1.default", Domain: "default.svc.cluster.local"},
		Cluster:        "reviews",
		DiscoveryHost:  "127.0.0.1",
		DiscoveryPort:  15010,
		ConnectTimeout: time.Second,
		Metadata: node.Metadata{
			Namespace: "default", Labels: map[string]string{"app": "reviews"}, InterceptionMode: node.None, HTTPProxyPort: 15103,
			InstanceIPs: []string{"127.0.0.13"}, Extra: map[string]any{"ISTIO_VERSION": "1.0.0"},
		},
	}
}

func TestRender(t *testing.T) {
	byName := sidecar()
	byName.DiscoveryHost = "istio-pilot.istio-system"
	byName.ConnectTimeout = 1500 * time.Millisecond
	byName.Metadata = node.Metadata{}
	for name, params := range map[string]Params{"discovery by address": sidecar(), "discovery by name": byName} {
		t.Run(name, func(t *testing.T) {
			got, err := Render(params)
			if err != nil {
				t.Fatal(err)
			}
			golden.JSON(t, got)
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Params)
		want   string
	}{
		{"role without a template", func(p *Params) { p.Node.Role = node.Router }, "role router"},
		{"malformed node", func(p *Params) { p.Node.IP = "localhost" }, `ip "localhost"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			params := sidecar()
			test.change(&params)
			if _, err := Render(params); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Render: got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// FuzzRender puts any string into every field: the document stays valid and carries the same value.
func FuzzRender(f *testing.F) {
	f.Add("reviews", "app")
	f.Add(`"}, "admin": {`, "</script>")
	f.Add("{{.Node}}\u2028\x00\\", "é")
	f.Fuzz(func(t *testing.T, value, key string) {
		if !utf8.ValidString(value) || !utf8.ValidString(key) {
			return // JSON cannot carry them
		}
		p := sidecar()
		p.Cluster, p.DiscoveryHost = value, value
		p.Metadata.Extra = map[string]any{"X_" + key: value}
		data, err := Render(p)
		if err != nil {
			t.Fatalf("Render: %v", err)
		}
		var got struct {
			Node struct {
				Cluster  string
				Metadata map[string]any
			}
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("parse: %v", err)
		}
		if got.Node.Cluster != value || got.Node.Metadata["X_"+key] != value {
			t.Errorf("got cluster %q and metadata %q, want %q", got.Node.Cluster, got.Node.Metadata["X_"+key], value)
		}
	})
}
