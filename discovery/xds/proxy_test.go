package xds

import (
	"strings"
	"testing"
)

func TestParseProxyRefusesWhatIsNotServed(t *testing.T) {
	none := map[string]any{"INTERCEPTION_MODE": "NONE"}
	for name, test := range map[string]struct {
		id       string
		metadata map[string]any
		want     string // part of the error
	}{
		"malformed ID":     {"sidecar~127.0.0.1", none, "has 2 parts, want 4"},
		"unknown mode":     {"sidecar~127.0.0.1~a.b~d", map[string]any{"INTERCEPTION_MODE": "EBPF"}, "want REDIRECT, TPROXY or NONE"},
		"malformed labels": {"sidecar~127.0.0.1~a.b~d", map[string]any{"LABELS": "x"}, "node metadata LABELS"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProxy(envoyNode(t, test.id, test.metadata))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestViewIsComparable(t *testing.T) {
	view := func(ip string, labels map[string]any) View {
		proxy, err := ParseProxy(envoyNode(t, "sidecar~"+ip+"~a.prod~prod.svc.cluster.local", map[string]any{
			"INTERCEPTION_MODE": "NONE", "LABELS": labels,
		}))
		if err != nil {
			t.Fatal(err)
		}
		return ViewOf(proxy)
	}
	a := view("127.0.0.1", map[string]any{"app": "a", "version": "1"})
	if b := view("127.0.0.1", map[string]any{"version": "1", "app": "a"}); a != b {
		t.Errorf("equal proxies have views %+v and %+v", a, b)
	}
	b := view("127.0.0.2", map[string]any{"app": "b"})
	if a.Outbound.In(mesh()) != b.Outbound.In(mesh()) || a.Inbound == b.Inbound {
		t.Errorf("want one outbound half and two inbound ones: %+v and %+v", a, b)
	}
	if got := a.Inbound.Labels()["app"]; got != "a" {
		t.Errorf("label app: got %q", got)
	}
	if a.Inbound.Namespace != "prod" {
		t.Errorf("namespace without metadata: got %q, want the domain's", a.Inbound.Namespace)
	}
}
