package proxy

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/environ"
)

func TestServiceName(t *testing.T) {
	for _, test := range []struct{ given, want string }{
		{"", "service.name=shop%20a"},
		{"OTEL_RESOURCE_ATTRIBUTES=zone=b", "zone=b,service.name=shop%20a"},
		{"OTEL_RESOURCE_ATTRIBUTES=service.name=mine", "service.name=mine"},
	} {
		got := environ.Parse(withServiceName([]string{"A=b", test.given}, "shop a"))
		if got["OTEL_RESOURCE_ATTRIBUTES"] != test.want || got["A"] != "b" {
			t.Errorf("%q: got %q, want %q", test.given, got["OTEL_RESOURCE_ATTRIBUTES"], test.want)
		}
	}
}
