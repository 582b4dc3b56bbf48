package plane

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// A source runs while MeshConfig names it, and starts again when its TLS changes.
func TestPlan(t *testing.T) {
	of := func(urls ...string) (out []config.ConfigSource) {
		for _, url := range urls {
			out = append(out, config.ConfigSource{URL: url})
		}
		return out
	}
	encrypted := config.ConfigSource{URL: "xds://a", TLS: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}}
	for name, test := range map[string]struct {
		running, wanted []config.ConfigSource
		start, stop     string
	}{
		"the first ones":          {nil, of("xds://a", "fs:///b"), "[xds://a fs:///b]", "[]"},
		"nothing has changed":     {of("xds://a"), of("xds://a"), "[]", "[]"},
		"one goes, another comes": {of("xds://a", "xds://b"), of("xds://b", "xds://c"), "[xds://c]", "[xds://a]"},
		"all go":                  {of("xds://b", "xds://a"), nil, "[]", "[xds://a xds://b]"},
		"one gets TLS":            {of("xds://a"), []config.ConfigSource{encrypted}, "[xds://a]", "[]"},
		"one with TLS, as it was": {[]config.ConfigSource{encrypted}, []config.ConfigSource{encrypted}, "[]", "[]"},
	} {
		running := map[string]config.ConfigSource{}
		for _, s := range test.running {
			running[s.URL] = s
		}
		start, stop := plan(running, test.wanted)
		urls := []string{}
		for _, s := range start {
			urls = append(urls, s.URL)
		}
		if fmt.Sprint(urls) != test.start || fmt.Sprint(stop) != test.stop {
			t.Errorf("%s: %v start and %v stop, want %s and %s", name, urls, stop, test.start, test.stop)
		}
	}
}
