package model

import "testing"

func TestMass(t *testing.T) {
	for _, test := range []struct {
		lost, had int
		want      bool
	}{
		{0, 0, false}, {1, 1, false}, {2, 2, false}, {3, 3, true}, {3, 5, true}, {3, 6, false}, {4, 6, true}, {500, 1000, false}, {501, 1000, true},
	} {
		if got := (Tally{test.lost, test.had}).Mass(); got != test.want {
			t.Errorf("%d of %d: %t, want %t", test.lost, test.had, got, test.want)
		}
	}
	if got := (Tally{9, 10}).Of("hosts"); got != "9 of 10 hosts" {
		t.Errorf("it says %q", got)
	}
}
