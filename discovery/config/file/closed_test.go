package file

import (
	"testing"

	security "istio.io/api/security/v1beta1"
)

// A policy with an error is STRICT for what it may have named, until a good form of it was read: that one stays.
func TestBrokenPolicies(t *testing.T) {
	const key = "PeerAuthentication/default/a"
	policy := func(mode string) string {
		return "{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: a}, spec: {mtls: {mode: " + mode + "}}}\n"
	}
	s := newState(0)
	for i, step := range []struct {
		text   string
		mode   security.PeerAuthentication_MutualTLS_Mode
		closed bool
	}{
		{policy("PERMISIVE"), security.PeerAuthentication_MutualTLS_STRICT, true},
		{policy("DISABEL"), security.PeerAuthentication_MutualTLS_STRICT, true},
		{policy("DISABLE"), security.PeerAuthentication_MutualTLS_DISABLE, false},
		{policy("STRIKT"), security.PeerAuthentication_MutualTLS_DISABLE, false},
		{"# moved\n" + policy("STRIKT"), security.PeerAuthentication_MutualTLS_DISABLE, false},
		{policy("STRICT"), security.PeerAuthentication_MutualTLS_STRICT, false},
	} {
		s.apply(s.lookAt([]File{file("1.yaml", step.text)}), start0)
		o := s.objects[key]
		if o == nil || o.Closed != step.closed || o.Spec.(*security.PeerAuthentication).Mtls.Mode != step.mode {
			t.Fatalf("step %d: %+v, want %v, closed %v", i, o, step.mode, step.closed)
		}
	}
	s.apply(s.lookAt([]File{file("3.yaml", "")}), start0)
	if o := s.objects[key]; o != nil {
		t.Errorf("of a file that is gone there is %+v", o)
	}
}
