package environ

import (
	"maps"
	"testing"
)

func TestParse(t *testing.T) {
	got := Parse([]string{"A=1", "B=", "C=x=y", "none", "A=2", "=odd"})
	if want := map[string]string{"A": "2", "B": "", "C": "x=y", "": "odd"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
