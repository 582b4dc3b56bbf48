package procnet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FileUser returns the user that owns what a process opens. The kernel shows it for every process.
func FileUser(pid int) (uint32, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if uids, found := strings.CutPrefix(line, "Uid:"); found { // real, effective, saved, of the file system
			if fields := strings.Fields(uids); len(fields) == 4 {
				uid, err := strconv.ParseUint(fields[3], 10, 32)
				return uint32(uid), err
			}
		}
	}
	return 0, fmt.Errorf("parse /proc/%d/status: it has no Uid", pid)
}

// Holds reports whether a process has a socket open.
func Holds(pid int, inode uint32) (bool, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	want := fmt.Sprintf("socket:[%d]", inode)
	var link [64]byte
	for _, name := range names {
		if n, err := unix.Readlinkat(int(dir.Fd()), name, link[:]); err == nil && string(link[:n]) == want {
			return true, nil
		}
	}
	return false, nil
}

// HolderOf names the process that has a socket, if this user may see it.
func HolderOf(inode uint32) string {
	processes, _ := filepath.Glob("/proc/[1-9]*") // the only error is a bad pattern
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			continue
		}
		if has, err := Holds(pid, inode); err == nil && has {
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return "another user's process"
}

// SameExecutable returns the other processes of an executable that one of pids has, as far as this user may examine
// them.
func SameExecutable(pids []int) (others []int) {
	var own []os.FileInfo
	for _, pid := range pids {
		if info, err := os.Stat(executableOf(pid)); err == nil {
			own = append(own, info)
		}
	}
	processes, _ := filepath.Glob("/proc/[1-9]*") // the only error is a bad pattern
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() || slices.Contains(pids, pid) {
			continue
		}
		info, err := os.Stat(executableOf(pid))
		for _, known := range own {
			if err == nil && os.SameFile(info, known) {
				others = append(others, pid)
				break
			}
		}
	}
	return others
}

func executableOf(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }
