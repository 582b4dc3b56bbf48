package cgroup

import (
	"io/fs"
	"path"
	"strings"
)

// Limits are the limits of a group, and of all groups above it. 0 is no limit.
type Limits struct {
	CPUs   float64 // processors' worth of time
	Memory int64   // bytes
}

// ReadLimits reads the limits of this process. A file that cannot be read sets no limit.
func ReadLimits(root fs.FS) Limits {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return Limits{}
	}
	var l Limits
	group, old := groupOf(string(data), "cpu")
	for _, dir := range upwards(mountOf("cpu", old), group) {
		l.CPUs = tighter(l.CPUs, cpus(root, dir, old))
	}
	group, old = groupOf(string(data), "memory")
	for _, dir := range upwards(mountOf("memory", old), group) {
		l.Memory = tighter(l.Memory, memory(root, dir, old))
	}
	return l
}

func mountOf(controller string, old bool) string {
	if old {
		return path.Join("sys/fs/cgroup", controller)
	}
	return "sys/fs/cgroup"
}

// upwards lists the directory of a group and those above it, up to the mount. In a container the path may be the
// host's, while only the group itself is mounted: then the mount is the group.
func upwards(mount, group string) (dirs []string) {
	for dir := path.Clean("/" + group); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, path.Join(mount, dir))
	}
	return append(dirs, mount)
}

func tighter[T int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// cpus returns the CPU quota divided by its period: "50000 100000" is half a processor.
func cpus(root fs.FS, dir string, old bool) float64 {
	quota, period := "", ""
	if old {
		quota, period = word(root, dir, "cpu.cfs_quota_us", 0), word(root, dir, "cpu.cfs_period_us", 0)
	} else {
		quota, period = word(root, dir, "cpu.max", 0), word(root, dir, "cpu.max", 1)
	}
	used, of := number(quota), number(period) // no quota is "max", or -1 in version 1
	if used <= 0 || of <= 0 {
		return 0
	}
	return float64(used) / float64(of)
}

func memory(root fs.FS, dir string, old bool) int64 {
	file := "memory.max"
	if old {
		file = "memory.limit_in_bytes"
	}
	limit := number(word(root, dir, file, 0))
	if limit >= noLimit {
		return 0
	}
	return max(0, limit)
}

// word returns one of the words of a file, nothing if the file has fewer or cannot be read.
func word(root fs.FS, dir, file string, i int) string {
	data, err := fs.ReadFile(root, path.Join(dir, file))
	if words := strings.Fields(string(data)); err == nil && i < len(words) {
		return words[i]
	}
	return ""
}

// Workers returns how many threads to use on so many processors. It rounds the limit down, since a thread beyond the
// limit would wait for the next period, and its requests with it.
func (l Limits) Workers(processors int) int {
	if l.CPUs > 0 && int(l.CPUs) < processors {
		processors = int(l.CPUs)
	}
	return max(1, processors)
}
