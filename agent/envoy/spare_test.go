package envoy

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
)

func TestSpare(t *testing.T) {
	s := NewSpare()
	full := &net.OpError{Op: "dial", Err: fmt.Errorf("socket: %w", syscall.EMFILE)}
	for _, test := range []struct {
		name  string
		spare *Spare
		fails []error // in turn; then it succeeds
		calls int
		want  error
	}{
		{"no failure", s, nil, 1, nil},
		{"none left", s, []error{full}, 2, nil},
		{"none left, even so", s, []error{full, full}, 2, full},
		{"another failure", s, []error{syscall.ECONNREFUSED}, 1, syscall.ECONNREFUSED},
		{"none to lend", nil, []error{full}, 1, full},
	} {
		calls := 0
		err := test.spare.lend(func() error {
			calls++
			if calls <= len(test.fails) {
				return test.fails[calls-1]
			}
			return nil
		})
		if calls != test.calls || !errors.Is(err, test.want) {
			t.Errorf("%s: %d calls, %v; want %d, %v", test.name, calls, err, test.calls, test.want)
		}
		if len(s.held) != spareFiles {
			t.Errorf("%s: %d descriptors are held afterwards, want %d", test.name, len(s.held), spareFiles)
		}
	}
	for err, want := range map[error]bool{full: true, syscall.ENOMEM: true, syscall.ECONNREFUSED: false, nil: false} {
		if got := ownFailure(err); got != want {
			t.Errorf("%v is the agent's own: %v, want %v", err, got, want)
		}
	}
}
