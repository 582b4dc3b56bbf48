package setting

import (
	"errors"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("no room"), "agent: no room\n"},
		{errors.New("a server says \x1b[2J\r\nin two lines\u009b"), "agent: a server says  [2J \nin two lines \n"},
		{Usage("agent", errors.New("--a: x"), errors.New("B: y")), "agent: --a: x\nagent: B: y\nRun 'agent proxy --help' for usage.\n"},
	} {
		var out strings.Builder
		if Report(&out, "agent proxy", test.err); out.String() != test.want {
			t.Errorf("got %q, want %q", out.String(), test.want)
		}
	}
}
