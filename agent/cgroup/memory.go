package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Memory holds the memory controller's data about a control group.
type Memory struct {
	Version int    `json:"version,omitempty"` // 1 or 2; 0 when there is none
	Path    string `json:"path,omitempty"`    // where its files were found
	OOMKill int64  `json:"oom_kill"`          // processes killed for lack of memory, since the group was created
	Usage   int64  `json:"usage_bytes"`
	Peak    int64  `json:"peak_bytes,omitempty"`
	Limit   int64  `json:"limit_bytes,omitempty"` // 0 for none
}

// OOMKilled reports whether the kernel killed a process of the group between two readings. It may have been another
// process than Envoy: the process was Envoy only if SIGKILL has ended Envoy.
func OOMKilled(before, after Memory) bool {
	return before.Version != 0 && before.Path == after.Path && after.OOMKill > before.OOMKill
}

// noLimit is the least value that means no limit in version 1.
const noLimit = 1 << 62

// controller holds the names of a version of cgroups.
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

// ReadMemory reads the agent's own control group, which its children share, from the files below a root. It does not
// read a child's own entry, since a process that has ended has none.
func ReadMemory(root fs.FS) (Memory, error) {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return Memory{}, fmt.Errorf("read cgroup: %w", err)
	}
	c := v2
	group, old := groupOf(string(data), "memory")
	if old {
		c = v1
	}
	// In a container the path may be the host's, while only the group itself is mounted: then the mount is the group.
	for _, dir := range []string{path.Join(c.mount, group), c.mount} {
		events, err := fs.ReadFile(root, path.Join(dir, c.events))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			continue
		}
		if err != nil {
			return Memory{}, fmt.Errorf("read cgroup: %w", err)
		}
		return c.read(root, dir, string(events)), nil
	}
	return Memory{}, fmt.Errorf("read cgroup: no %s of %q below /%s", c.events, group, c.mount)
}

func (c controller) read(root fs.FS, dir, events string) Memory {
	value := func(name string) int64 {
		data, _ := fs.ReadFile(root, path.Join(dir, name)) // an older kernel has no peak; no limit is "max"
		return number(strings.TrimSpace(string(data)))
	}
	g := Memory{Version: c.version, Path: "/" + dir, Usage: value(c.usage), Peak: value(c.peak), Limit: value(c.limit)}
	if g.Limit >= noLimit {
		g.Limit = 0
	}
	for line := range strings.Lines(events) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			g.OOMKill = number(strings.TrimSpace(count))
		}
	}
	return g
}
