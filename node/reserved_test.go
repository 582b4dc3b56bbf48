package node

import "testing"

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
