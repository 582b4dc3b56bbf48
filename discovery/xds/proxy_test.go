package xds

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
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

// A proxy of another domain than the mesh's is named; its own domain may have upper case and a dot at its end.
func TestDomainFault(t *testing.T) {
	for _, test := range []struct {
		role, domain string
		mesh         model.Domain
		want         bool
	}{
		{"sidecar", "default.svc.cluster.local", "", false},
		{"sidecar", "default.svc.cluster.local", "cluster.local", false},
		{"sidecar", "default.svc.corp.example", "corp.example", false},
		{"sidecar", "default.svc.Corp.Example.", "corp.example", false},
		{"sidecar", "default.svc.prod.svc.corp.example", "prod.svc.corp.example", false},
		{"sidecar", "service.consul", "corp.example", false},
		{"sidecar", "", "corp.example", false},
		{"sidecar", "default.svc.cluster.local", "corp.example", true},
		{"sidecar", "default.svc.corp.example", "", true},
		{"sidecar", "default.svc.corp.example", "example", true},
		{"sidecar", "default.svc.sub.corp.example", "corp.example", true},
		{"sidecar", "corp.example", "corp.example", true},
		{"sidecar", "svc.corp.example", "corp.example", true},
		{"sidecar", "prod.svc.corp.example", "prod.svc.corp.example", true},
		{"sidecar", "default.svc.prod.svc.corp.example", "corp.example", true},
		{"router", "default.svc.cluster.local", "corp.example", false},
	} {
		proxy, err := ParseProxy(envoyNode(t, test.role+"~127.0.0.1~a.prod~"+test.domain, map[string]any{"NAMESPACE": "default"}))
		if err != nil {
			t.Fatal(err)
		}
		fault := ViewOf(proxy).DomainFault(test.mesh)
		if (fault != "") != test.want || test.want && !strings.Contains(fault, "want NAMESPACE.svc."+test.mesh.String()) {
			t.Errorf("%s of %q in %q: %q", test.role, test.domain, test.mesh, fault)
		}
	}
}

// The domain of a proxy names the same domain in upper case and with a dot at its end.
func TestDomainOfAProxy(t *testing.T) {
	proxy, err := ParseProxy(envoyNode(t, "sidecar~127.0.0.1~a.prod~prod.svc.Corp.Example.", nil))
	if err != nil {
		t.Fatal(err)
	}
	if v := ViewOf(proxy); v.Outbound.Domain != "prod.svc.corp.example" || v.Outbound.Namespace != "prod" {
		t.Errorf("the view has domain %q and namespace %q", v.Outbound.Domain, v.Outbound.Namespace)
	}
}
