package identity

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/node"
)

// The agent uses the number of workers in PROXY_CONFIG; discovery receives all of it.
func TestProxyConfig(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
		said bool
	}{
		{"", 0, false},
		{`{"concurrency":3}`, 3, true},
		{"concurrency: 3\n", 3, true},
		{`{"concurrency":0}`, 8, true},
		{`{"statusPort":15020}`, 0, false},
	} {
		c, err := ReadProxyConfig(Environment{"PROXY_CONFIG": test.text})
		if err != nil {
			t.Fatal(err)
		}
		if got, said := c.Workers(8); got != test.want || said != test.said {
			t.Errorf("%s: %d workers, said %v; want %d, %v", test.text, got, said, test.want, test.said)
		}
	}
	env := Environment{"PROXY_CONFIG": `{"concurrency":2,"gatewayTopology":{"numTrustedProxies":1},"image":{"imageType":"debug"}}`}
	metadata, err := Describe(node.ID{IP: "10.0.0.1"}, Pod{}, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"concurrency": 2, "gatewayTopology": map[string]any{"numTrustedProxies": 1}, "image": map[string]any{"imageType": "debug"},
	}
	if diff := cmp.Diff(want, metadata.Extra["PROXY_CONFIG"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	c, _ := ReadProxyConfig(env)
	if keys, _ := c.Unread(); !slices.Equal(keys, []string{"image"}) {
		t.Errorf("not read: %q, want the one key that is not", keys)
	}
	env = Environment{"PROXY_CONFIG": "proxyMetadata: {ISTIO_META_NETWORK: east, ISTIO_META_CLUSTER_ID: c1, TZ: UTC}", "ISTIO_META_CLUSTER_ID": "own"}
	if metadata, err = Describe(node.ID{IP: "10.0.0.1"}, Pod{}, env, nil); err != nil {
		t.Fatal(err)
	}
	if got := metadata.Extra; got["NETWORK"] != "east" || got["CLUSTER_ID"] != "own" || got["TZ"] != nil {
		t.Errorf("of proxyMetadata the node has %v, want NETWORK of it, and CLUSTER_ID of the environment", got)
	}
	c, _ = ReadProxyConfig(env)
	if _, names := c.Unread(); !slices.Equal(names, []string{"TZ"}) {
		t.Errorf("not read: %q, want the name that is not", names)
	}
	for _, wrong := range []string{"concurrency: many", "concurrency: -1", "concurrency: 1.5", "text", "[1]"} {
		if _, err := Describe(node.ID{IP: "10.0.0.1"}, Pod{}, Environment{"PROXY_CONFIG": wrong}, nil); err == nil || !strings.Contains(err.Error(), "PROXY_CONFIG") {
			t.Errorf("%s: got error %v, want one that names PROXY_CONFIG", wrong, err)
		}
	}
}
