package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/node"
)

// The workers of PROXY_CONFIG count where no setting says how many; discovery is told all of it.
func TestProxyConfig(t *testing.T) {
	for _, test := range []struct {
		text, flag string
		want       int
	}{
		{"", "", 0},
		{`{"concurrency":3}`, "", 3},
		{"concurrency: 3\n", "", 3},
		{`{"concurrency":3}`, "5", 5},
		{`{"concurrency":0}`, "", 8},
		{`{"statusPort":15020}`, "", 0},
	} {
		flags := []string{}
		if test.flag != "" {
			flags = append(flags, "--concurrency", test.flag)
		}
		s := resolved(t, nil, flags...)
		c, err := readProxyConfig(environment{"PROXY_CONFIG": test.text})
		if err != nil {
			t.Fatal(err)
		}
		if s.takeProxyConfig(c, 8); s.concurrency != test.want {
			t.Errorf("%s, flag %q: %d workers, want %d", test.text, test.flag, s.concurrency, test.want)
		}
	}
	env := environment{"PROXY_CONFIG": `{"concurrency":2,"gatewayTopology":{"numTrustedProxies":1},"image":{"imageType":"debug"}}`}
	metadata, err := describe(node.ID{IP: "10.0.0.1"}, pod{}, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"concurrency": 2, "gatewayTopology": map[string]any{"numTrustedProxies": 1}, "image": map[string]any{"imageType": "debug"},
	}
	if diff := cmp.Diff(want, metadata.Extra["PROXY_CONFIG"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	c, _ := readProxyConfig(env)
	var log bytes.Buffer
	c.warnUnread(slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "keys=[image]") {
		t.Errorf("told %q, want the one key that is not read", log.String())
	}
	log.Reset()
	env = environment{"PROXY_CONFIG": "proxyMetadata: {ISTIO_META_NETWORK: east, ISTIO_META_CLUSTER_ID: c1, TZ: UTC}", "ISTIO_META_CLUSTER_ID": "own"}
	if metadata, err = describe(node.ID{IP: "10.0.0.1"}, pod{}, env, nil); err != nil {
		t.Fatal(err)
	}
	if got := metadata.Extra; got["NETWORK"] != "east" || got["CLUSTER_ID"] != "own" || got["TZ"] != nil {
		t.Errorf("of proxyMetadata the node has %v, want NETWORK of it, and CLUSTER_ID of the environment", got)
	}
	c, _ = readProxyConfig(env)
	if c.warnUnread(slog.New(slog.NewTextHandler(&log, nil))); !strings.Contains(log.String(), "names=[TZ]") {
		t.Errorf("told %q, want the name that is not read", log.String())
	}
	for _, wrong := range []string{"concurrency: many", "concurrency: -1", "concurrency: 1.5", "text", "[1]"} {
		if _, err := describe(node.ID{IP: "10.0.0.1"}, pod{}, environment{"PROXY_CONFIG": wrong}, nil); err == nil || !strings.Contains(err.Error(), "PROXY_CONFIG") {
			t.Errorf("%s: got error %v, want one that names PROXY_CONFIG", wrong, err)
		}
	}
}
