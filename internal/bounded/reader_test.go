package bounded

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var errFault = errors.New("the answer is longer than 4 bytes")

func TestReader(t *testing.T) {
	cut := errors.New("connection reset")
	for _, c := range []struct {
		name string
		in   io.Reader
		want string
		err  error
	}{
		{"nothing", strings.NewReader(""), "", nil},
		{"less", strings.NewReader("abc"), "abc", nil},
		{"exactly as much", strings.NewReader("abcd"), "abcd", nil},
		{"exactly as much, the end with the last byte", iotest.DataErrReader(strings.NewReader("abcd")), "abcd", nil},
		{"one more", strings.NewReader("abcde"), "abcd", errFault},
		{"one more, byte by byte", iotest.OneByteReader(strings.NewReader("abcde")), "abcd", errFault},
		{"a broken connection at the limit", io.MultiReader(strings.NewReader("abcd"), iotest.ErrReader(cut)), "abcd", cut},
	} {
		got, err := io.ReadAll(New(c.in, 4, errFault))
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// A reader that failed fails again: no byte of a content that is too long comes after its gap.
func TestTheFaultStays(t *testing.T) {
	r := New(strings.NewReader("abcdefgh"), 4, errFault)
	_, _ = io.ReadAll(r)
	for range 2 {
		if n, err := r.Read(make([]byte, 2)); n != 0 || err != errFault {
			t.Errorf("%d bytes, %v, want the fault", n, err)
		}
	}
}

// A read of no bytes takes none from below, whatever is left.
func TestEmptyRead(t *testing.T) {
	r := New(strings.NewReader("abcdefgh"), 4, errFault)
	_, _ = io.ReadFull(r, make([]byte, 4))
	if n, err := r.Read(nil); n != 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := r.Read(make([]byte, 1)); err != errFault {
		t.Errorf("%v, want the fault", err)
	}
}

func TestRenew(t *testing.T) {
	r := New(strings.NewReader("abcdefghi"), 4, errFault)
	for _, want := range []string{"abcd", "efgh"} {
		got := make([]byte, 4)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		r.Renew()
	}
	if got, err := io.ReadAll(r); string(got) != "i" || err != nil {
		t.Errorf("%q, %v, want the rest", got, err)
	}
}
