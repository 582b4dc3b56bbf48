package node

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMetadataIsReadBackFromTheWire(t *testing.T) {
	for name, m := range map[string]Metadata{
		"empty": {},
		"full": {
			Namespace: "default", Labels: map[string]string{"app": "reviews"}, InstanceIPs: []string{"10.1.2.3", "fd00::1"},
			InterceptionMode: None, HTTPProxyPort: 15007, AgentSDS: SDSFiles, Certificate: true, Reports: ReportFailures, Said: Said{"v0.2.0", "8080 10.0.0.7"},
			Extra: map[string]any{"ISTIO_VERSION": "1.0", "NESTED": map[string]any{"a": []any{1.5, true, nil}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(m.Map())
			if err != nil {
				t.Fatal(err)
			}
			var wire map[string]any
			if err := json.Unmarshal(text, &wire); err != nil {
				t.Fatal(err)
			}
			got, err := ParseMetadata(wire)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Errorf("over %s (-want +got):\n%s", text, diff)
			}
		})
	}
}

func TestParseMetadataNamesTheFault(t *testing.T) {
	for _, test := range []struct {
		key   string
		value any
		want  string // empty: accepted
	}{
		{"HTTP_PROXY_PORT", "15007", ""},
		{"HTTP_PROXY_PORT", 15007.0, ""},
		{"HTTP_PROXY_PORT", nil, ""},
		{"HTTP_PROXY_PORT", "http", `node metadata HTTP_PROXY_PORT: is "http", want a port, 1 to 65535`},
		{"HTTP_PROXY_PORT", "70000", "want a port"},
		{"INTERCEPTION_MODE", "none", `is "none", want REDIRECT, TPROXY or NONE`},
		{"LABELS", "app=x", "want an object of strings"},
		{"LABELS", map[string]any{"app": 1.0}, "LABELS.app"},
		{"NAMESPACE", []any{"a"}, "want a string"},
		{"UNKNOWN", []any{"a"}, ""},
	} {
		_, err := ParseMetadata(map[string]any{test.key: test.value})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s=%v: %v, want it accepted", test.key, test.value, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s=%v: got error %v, want one with %q", test.key, test.value, err, test.want)
		}
	}
}

// For any metadata, a fault names its key, and the values that were read are read back from what Map writes.
func FuzzParseMetadata(f *testing.F) {
	for _, text := range []string{
		`{"NAMESPACE": "default", "LABELS": {"app": "reviews"}, "INSTANCE_IPS": "10.1.2.3,,fd00::1", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "15007"}`,
		`{"LABELS": {"a": 1}}`, `{"LABELS": []}`, `{"INSTANCE_IPS": 1e308, "NAMESPACE": true}`, `{"": null, "PILOTLIGHT_SDS": {}}`,
		`{"HTTP_PROXY_PORT": 15007.5, "EXTRA": [{}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var wire map[string]any
		if json.Unmarshal([]byte(text), &wire) != nil {
			return
		}
		m, err := ParseMetadata(wire)
		if err != nil {
			if !strings.Contains(err.Error(), "node metadata ") {
				t.Errorf("the fault does not name a key: %v", err)
			}
			return
		}
		again, err := ParseMetadata(m.Map())
		if diff := cmp.Diff(m, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s read back: %v (-want +got):\n%s", text, err, diff)
		}
	})
}

func TestReserved(t *testing.T) {
	for variable, want := range map[string]bool{
		"POD_NAME": true, "PATH": true, "LD_PRELOAD": true, "LD_": true, "PILOTLIGHT_ID": true,
		"LD": false, "ISTIO_META_NETWORK": false, "pod_name": false, "": false,
	} {
		if got := Reserved(variable); got != want {
			t.Errorf("%q is reserved: %t, want %t", variable, got, want)
		}
	}
}
