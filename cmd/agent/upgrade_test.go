package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
)

// A signal that nobody has received when the image changes is for the next image.
func TestSignalsThatCame(t *testing.T) {
	for _, test := range []struct {
		name            string
		hangUp, upgrade int
		settled, want   []syscall.Signal
	}{
		{"none", 0, 0, nil, nil},
		{"a stop", 0, 0, []syscall.Signal{syscall.SIGTERM}, []syscall.Signal{syscall.SIGTERM}},
		{"to read the files", 1, 0, nil, []syscall.Signal{syscall.SIGHUP}},
		{"to upgrade", 0, 1, nil, []syscall.Signal{syscall.SIGUSR2}},
		{"all", 1, 1, []syscall.Signal{syscall.SIGQUIT}, []syscall.Signal{syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			filled := func(n int) <-chan os.Signal {
				c := make(chan os.Signal, 1)
				for range n {
					c <- syscall.SIGHUP
				}
				return c
			}
			c := command{
				hangUp: filled(test.hangUp), upgrade: filled(test.upgrade),
				settled: func() []syscall.Signal { return test.settled },
			}
			if got := c.images(nil, nil).Came(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
