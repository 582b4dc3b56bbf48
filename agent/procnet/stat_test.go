package procnet

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 7 7 0 -1 4194560 9 0 0 0 12 34 0 0 20 0 5 0 8812 1234944 16 18446744073709551615 1 1 0 0"
	want := Stat{State: 'S', Parent: 1, CPU: 460 * time.Millisecond, Threads: 5, Start: 8812}
	want.RSS = 16 * int64(os.Getpagesize())
	stopped, traced, zombie := want, want, want
	stopped.State, traced.State, zombie.State = 'T', 't', 'Z'
	for _, test := range []struct {
		name, stat string
		want       Stat
		err        string
	}{
		{"plain", "42 (envoy) S" + rest, want, ""},
		{"stopped", "42 (envoy) T" + rest, stopped, ""},
		{"traced", "42 (envoy) t" + rest, traced, ""},
		{"zombie", "42 (envoy) Z" + rest, zombie, ""},
		{"spaces and parentheses", "42 (a (b) S 9) c) S" + rest, want, ""},
		{"a command of one parenthesis", "42 ()) S" + rest, want, ""},
		{"empty", "", Stat{}, "too few fields"},
		{"cut short", "42 (envoy) S 1 7 7 0 -1", Stat{}, "too few fields"},
		{"no numbers", "42 (envoy) S" + strings.ReplaceAll(rest, "8812", "x"), Stat{}, `"x"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseStat(test.stat)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("parseStat: got %+v, %v; want %+v, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestFactsOf(t *testing.T) {
	self, err := ReadStat(os.Getpid())
	if err != nil || self.Parent != os.Getppid() || self.RSS < 1<<20 || self.Start == 0 {
		t.Errorf("ReadStat this process: %+v, %v", self, err)
	}
	if _, err := ReadStat(math.MaxInt32); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadStat no process: %v, want fs.ErrNotExist", err)
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	must(t, lab.Eventually(30*time.Second, func() error {
		if facts, err := ReadStat(cmd.Process.Pid); err != nil || facts.State != 'Z' || facts.Start < self.Start {
			return fmt.Errorf("the child is no zombie: %+v, %v", facts, err)
		}
		return nil
	}))
}

func TestEndedIsLaterThanItsMainThreadsEnd(t *testing.T) {
	for facts, want := range map[Stat]bool{
		{State: 'R', Threads: 1}: false,
		{State: 'Z', Threads: 2}: false,
		{State: 'Z', Threads: 1}: true,
		{State: 'X', Threads: 0}: true,
	} {
		if facts.Ended() != want {
			t.Errorf("%c with %d threads: ended %t, want %t", facts.State, facts.Threads, !want, want)
		}
	}
}
