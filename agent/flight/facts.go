package flight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Process is what /proc says of a process.
type Process struct {
	Pid     int    `json:"pid,omitempty"`
	State   string `json:"state,omitempty"` // "S (sleeping)"
	Threads int64  `json:"threads,omitempty"`
	RSS     int64  `json:"rss_bytes,omitempty"`
	PeakRSS int64  `json:"peak_rss_bytes,omitempty"`
}

// ReadProcess reads proc/PID/status of a root.
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

// Cgroup is what the memory controller says of a control group.
type Cgroup struct {
	Version int    `json:"version,omitempty"` // 1 or 2; 0 when there is none
	Path    string `json:"path,omitempty"`    // where its files were found
	OOMKill int64  `json:"oom_kill"`          // processes killed for want of memory, since the group was made
	Usage   int64  `json:"usage_bytes"`
	Peak    int64  `json:"peak_bytes,omitempty"`
	Limit   int64  `json:"limit_bytes,omitempty"` // 0 for none
}

// OOMKilled tells whether the kernel killed a process of the group between two readings. It may have been another one
// than Envoy: only together with an Envoy ended by SIGKILL it means this one.
func OOMKilled(before, after Cgroup) bool {
	return before.Version != 0 && before.Path == after.Path && after.OOMKill > before.OOMKill
}

// controller is how a version of cgroups spells it.
type controller struct {
	version                    int
	mount                      string
	events, usage, peak, limit string
}

var (
	v1 = controller{
		1, "sys/fs/cgroup/memory",
		"memory.oom_control", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes",
	}
	v2 = controller{2, "sys/fs/cgroup", "memory.events", "memory.current", "memory.peak", "memory.max"}
)

// ReadCgroup reads the agent's own control group, which its children share, from the files of a root. A process that
// is gone has none to ask for.
func ReadCgroup(root fs.FS) (Cgroup, error) {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return Cgroup{}, fmt.Errorf("read cgroup: %w", err)
	}
	c, group := memoryController(string(data))
	// In a container, the path may be the host's, of which only the end is mounted: then the mount is the group.
	for _, dir := range []string{path.Join(c.mount, group), c.mount} {
		events, err := fs.ReadFile(root, path.Join(dir, c.events))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			continue
		}
		if err != nil {
			return Cgroup{}, fmt.Errorf("read cgroup: %w", err)
		}
		return c.read(root, dir, string(events)), nil
	}
	return Cgroup{}, fmt.Errorf("read cgroup: no %s of %q below /%s", c.events, group, c.mount)
}

// memoryController finds the line "5:memory:/path" of version 1, else "0::/path" of version 2.
func memoryController(lines string) (c controller, group string) {
	c = v2
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[0] == "0" && fields[1] == "":
			group = fields[2]
		case strings.Contains(","+fields[1]+",", ",memory,"):
			return v1, fields[2]
		}
	}
	return c, group
}

func (c controller) read(root fs.FS, dir, events string) Cgroup {
	value := func(name string) int64 {
		data, _ := fs.ReadFile(root, path.Join(dir, name)) // an older kernel has no peak; no limit is "max"
		return number(strings.TrimSpace(string(data)))
	}
	g := Cgroup{Version: c.version, Path: "/" + dir, Usage: value(c.usage), Peak: value(c.peak), Limit: value(c.limit)}
	if g.Limit >= 1<<62 { // version 1's word for none
		g.Limit = 0
	}
	for line := range strings.Lines(events) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			g.OOMKill = number(strings.TrimSpace(count))
		}
	}
	return g
}

// number is 0 for what is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
