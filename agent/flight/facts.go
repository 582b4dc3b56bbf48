package flight

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Process holds the data of /proc about a process.
type Process struct {
	Pid     int    `json:"pid,omitempty"`
	State   string `json:"state,omitempty"` // "S (sleeping)"
	Threads int64  `json:"threads,omitempty"`
	RSS     int64  `json:"rss_bytes,omitempty"`
	PeakRSS int64  `json:"peak_rss_bytes,omitempty"`
}

// ReadProcess reads proc/PID/status below a root.
func ReadProcess(root fs.FS, pid int) (Process, error) {
	data, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/status", pid))
	if err != nil {
		return Process{}, fmt.Errorf("read process: %w", err)
	}
	p := Process{Pid: pid}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			p.State = value
		case "Threads":
			p.Threads = number(value)
		case "VmRSS":
			p.RSS = number(strings.TrimSuffix(value, " kB")) << 10
		case "VmHWM":
			p.PeakRSS = number(strings.TrimSuffix(value, " kB")) << 10
		}
	}
	return p, nil
}

// number parses a number; it returns 0 for a text that is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
