package footprint

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// interval is how long text that was used once, by a scrape or a handover, stays in memory.
const interval = 30 * time.Second

// settling is how long after Envoy serves the agent shrinks: until then it answers the first probes, which a collection and a switch
// of all threads would delay.
const settling = time.Second

// Keep calls Shrink a moment after serving is closed, with fork, and then DropText at each interval until ctx is done.
func Keep(ctx context.Context, serving <-chan struct{}, fork func(func())) {
	select {
	case <-ctx.Done():
		return
	case <-serving:
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(settling):
	}
	Shrink(fork)
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			DropText()
		}
	}
}

// DropText releases the pages of the program's text and constants. A page that is used again is mapped again, which
// costs less than a microsecond as long as the file is in the kernel's cache.
func DropText() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, r := range readOnly(maps, program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED)
	}
}

// region is a range of addresses.
type region struct{ start, end uintptr }

// readOnly finds a file's read-only mappings in the format of /proc/PID/maps (proc(5)): such a page has the content of
// the file, so it can be read again. A writable page may hold the only copy of its data.
func readOnly(maps []byte, file string) []region {
	var out []region
	for line := range bytes.Lines(maps) {
		// START-END PERMISSIONS OFFSET DEVICE INODE FILE
		fields := bytes.Fields(line)
		if len(fields) < 6 || string(fields[5]) != file || fields[1][0] != 'r' || fields[1][1] != '-' {
			continue
		}
		first, last, _ := bytes.Cut(fields[0], []byte("-"))
		start, err := strconv.ParseUint(string(first), 16, 64)
		if err != nil {
			continue
		}
		end, err := strconv.ParseUint(string(last), 16, 64)
		if err != nil || end <= start {
			continue
		}
		out = append(out, region{uintptr(start), uintptr(end)})
	}
	return out
}
