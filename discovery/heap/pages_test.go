package heap

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The requested memory is marked in the process's mappings, if the system has huge pages, and none of it is used.
func TestHugePagesAreAskedFor(t *testing.T) {
	before := resident(t)
	err := askForHugePages(lent)
	if _, missing := os.Stat("/sys/kernel/mm/transparent_hugepage"); missing != nil {
		if !errors.Is(err, unix.EINVAL) {
			t.Errorf("a system without huge pages: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := askedFor(t); got < lent-2*hugePage {
		t.Errorf("huge pages are asked for %d bytes, want %d or nearly so", got, lent)
	}
	if more := resident(t) - before; more > lent/8 {
		t.Errorf("%d bytes more are resident", more)
	}
}

// askedFor returns the size of all mappings with the flag of MADV_HUGEPAGE.
func askedFor(t *testing.T) (bytes int) {
	t.Helper()
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size := 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "Size":
			if _, err := fmt.Sscan(value, &size); err != nil {
				t.Fatal(err)
			}
		case "VmFlags":
			if strings.Contains(value+" ", " hg ") {
				bytes += size << 10
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return bytes
}

func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
