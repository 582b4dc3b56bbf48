package footprint

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadOnly(t *testing.T) {
	const maps = `00400000-00a1f000 r-xp 00000000 fe:00 1835 /usr/local/bin/agent
00a1f000-0109b000 r--p 0061f000 fe:00 1835 /usr/local/bin/agent
0109b000-010fb000 rw-p 00c9b000 fe:00 1835 /usr/local/bin/agent
c000000000-c000400000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r-xp 00000000 fe:00 99 /usr/local/bin/agent2
7f0000002000-7f0000001000 r-xp 00000000 fe:00 99 /usr/local/bin/agent
zz-7f0000001000 r-xp 00000000 fe:00 99 /usr/local/bin/agent
7ffd0000-7ffe0000 r-xp 00000000 00:00 0 [vdso]
`
	want := []region{{0x400000, 0xa1f000}, {0xa1f000, 0x109b000}}
	if got := readOnly([]byte(maps), "/usr/local/bin/agent"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The program runs on without its text, and holds less of it.
func TestDropText(t *testing.T) {
	before := fileRSS(t)
	DropText()
	after := fileRSS(t)
	t.Logf("pages of files: %d kB, then %d kB", before, after)
	if after >= before {
		t.Errorf("%d kB of files are resident, %d before", after, before)
	}
}

// Every thread but the one that forks has the slack.
func TestRelax(t *testing.T) {
	forks := make(chan func())
	done := make(chan int)
	go func() { // a thread of its own, as the agent's main one
		runtime.LockOSThread()
		f := <-forks
		f()
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Error(err)
		}
		done <- slack
	}()
	relax(func(f func()) { forks <- f })
	if got := <-done; got >= int(slack.Nanoseconds()) || got == 0 {
		t.Errorf("the forking thread has a slack of %d ns, want the kernel's default", got)
	}
}

// fileRSS is how much of files is resident, in kB.
func fileRSS(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if value, ok := strings.CutPrefix(string(line), "RssFile:"); ok {
			kB, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kB
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}
