package lab

import (
	"testing"
	"time"
)

// Trial is a test that starts programs, in a directory and at loopback addresses of its own. The programs are stopped
// at the end of the test, and their logs are shown if the test has failed.
type Trial struct {
	Lab
	T         *testing.T
	Addresses string // prefix of its loopback addresses, which lacks the last number
}

// NewTrial returns the Trial of a test.
func NewTrial(t *testing.T) *Trial {
	t.Helper()
	return &Trial{Lab: New(t.TempDir()), T: t, Addresses: Addresses()}
}

// Check ends the test with an error, if there is one.
func (t *Trial) Check(err error) {
	t.T.Helper()
	if err != nil {
		t.T.Fatal(err)
	}
}

// Serve starts discovery with a directory of configuration, "" for none.
func (t *Trial) Serve(config string, flags ...string) *Discovery {
	t.T.Helper()
	d, err := t.Discovery(config, append([]string{"--shutdownDuration", "2s"}, flags...)...)
	t.Check(err)
	t.StopAtEnd("discovery", d)
	return d
}

// StopAtEnd stops a program at the end of the test.
func (t *Trial) StopAtEnd(name string, p interface {
	Stop(limit time.Duration) int
	Log() string
},
) {
	t.T.Cleanup(func() {
		p.Stop(StopLimit)
		if t.T.Failed() {
			t.T.Logf("%s:\n%s", name, Tail(p.Log()))
		}
	})
}

// Unharmed ends a load, and fails the test if a request of it has failed.
func (t *Trial) Unharmed(load *Load) {
	t.T.Helper()
	n, failures := load.Stop()
	if n == 0 || len(failures) > 0 {
		t.T.Errorf("%d requests were answered, %d failed, such as %q", n, len(failures), failures[:min(3, len(failures))])
	}
	t.T.Logf("%d requests, answered by %v", n, load.Bodies())
}

// Tail returns the end of a log.
func Tail(log string) string {
	const most = 8_000
	return log[max(0, len(log)-most):]
}
