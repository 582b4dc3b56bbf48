package envoy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestUnfit(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("[::]:15006")
	both := []netip.AddrPort{a, b}
	for _, test := range []struct {
		name      string
		newcomer  prospect
		addresses []netip.AddrPort
		want      string // a piece; empty: fit
	}{
		{"CDS is silent", prospect{asksCDS: true, asksLDS: true}, both, "CDS has not answered"},
		{"CDS is silent, and nothing else is asked for", prospect{asksCDS: true}, nil, "CDS has not answered"},
		{"CDS has answered, and nothing else is asked for", prospect{asksCDS: true, cdsAnswered: true}, both, ""},
		{"LDS is silent", prospect{asksCDS: true, cdsAnswered: true, asksLDS: true}, both, "LDS has not answered"},
		{"LDS is silent, and the parent has no listener", prospect{asksLDS: true}, nil, "LDS has not answered"},
		{"LDS was accepted without them", prospect{asksLDS: true, ldsAccepted: true}, both, ""},
		{"LDS was accepted before it was refused", prospect{asksLDS: true, ldsAccepted: true, ldsRefused: true}, both, ""},
		{"routes have not come", prospect{asksLDS: true, ldsAccepted: true, lacks: "route table 80"}, both, "route table 80"},
		{"routes have not come, LDS was refused in part", prospect{asksLDS: true, ldsRefused: true, listeners: both, lacks: "route table 80"}, both, "route table 80"},
		{"LDS was refused, and nothing is lost", prospect{asksLDS: true, ldsRefused: true, listeners: []netip.AddrPort{b, a}}, both, ""},
		{"LDS was refused, and there was nothing", prospect{asksLDS: true, ldsRefused: true}, nil, ""},
		{"LDS was refused, and one is lost", prospect{asksLDS: true, ldsRefused: true, listeners: both[:1], refusal: "no filter"}, both, "at [::]:15006: no filter"},
		{"LDS was refused, and all are lost", prospect{asksLDS: true, ldsRefused: true}, both, "at 10.0.0.1:80, [::]:15006"},
		{"the others are taken by the parent", prospect{asksLDS: true, ldsRefused: true, listeners: both[:1], taken: both[1:]}, both, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.newcomer.unfit(test.addresses)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The lines are those of a real answer.
func TestParseListeners(t *testing.T) {
	addresses, pipe := parseListeners("agent_gate::127.255.255.254:1\nin::10.0.0.1:80\nin::[::]:81\nmy::name::[2001:db8::1]:82\n")
	want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("[::]:81"), netip.MustParseAddrPort("[2001:db8::1]:82")}
	if pipe || !slices.Equal(addresses, want) {
		t.Errorf("got %v, pipe %v; want %v", addresses, pipe, want)
	}
	for _, text := range []string{"p::/tmp/p.sock\n", "p::@abstract\n"} {
		if addresses, pipe := parseListeners(text); !pipe || len(addresses) > 0 {
			t.Errorf("%q: %v, %v", text, addresses, pipe)
		}
	}
}

func TestRejectedIn(t *testing.T) {
	for _, test := range []struct{ message, typeURL, text string }{
		{"gRPC config for " + listenerType + " rejected: Error adding/updating listener(s) l: why", listenerType, "Error adding/updating listener(s) l: why"},
		{"delta config for " + clusterType + " rejected: why", clusterType, "why"},
		{"Filesystem config update rejected: Error adding/updating listener(s) l: why\n", listenerType, "Error adding/updating listener(s) l: why\n"},
		{"Filesystem config update rejected: Error adding/updating cluster(s) c: why", clusterType, "Error adding/updating cluster(s) c: why"},
		{"Filesystem config update failure: why", "", ""},
		{"some config for x rejected: why", "", ""},
	} {
		typeURL, text := rejectedIn(test.message)
		if typeURL != test.typeURL || typeURL != "" && text != test.text {
			t.Errorf("%q: got %q, %q; want %q, %q", test.message, typeURL, text, test.typeURL, test.text)
		}
	}
}
