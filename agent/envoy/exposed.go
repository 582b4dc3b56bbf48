package envoy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// exposed returns why users other than self and root could replace a directory or a file in it; empty where they
// cannot. It checks each directory of the path, both as written and with symbolic links resolved.
func exposed(dir string, self uint32) (why string, err error) {
	written, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(written)
	if err != nil {
		return "", err
	}
	for _, path := range []string{written, real} {
		if why, err = exposedAlong(path, self); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// exposedAlong checks the directories from the root down, until one that others may change, or that they may not enter.
func exposedAlong(path string, self uint32) (why string, err error) {
	at := "/"
	for step := range strings.SplitSeq(path, "/") { // the first is empty, for the root
		at = filepath.Join(at, step)
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		owner, err := ownerOf(info)
		if err != nil {
			return "", err
		}
		why, shut := judgeStep(owner, self, info.Mode(), at == path)
		if why != "" {
			return at + " " + why, nil
		}
		if shut {
			return "", nil
		}
	}
	return "", nil
}

// judgeStep judges one directory, or symbolic link, of a path. In a directory with the sticky bit other users cannot
// rename files of another owner, but they can create files, which matters in the last directory. shut means that other
// users cannot enter the directory.
func judgeStep(owner, self uint32, mode fs.FileMode, last bool) (why string, shut bool) {
	switch {
	case owner != self && owner != 0:
		return fmt.Sprintf("belongs to user %d", owner), false
	case mode&fs.ModeSymlink != 0:
		return "", false
	case mode.Perm()&0o022 != 0 && (last || mode&fs.ModeSticky == 0):
		return fmt.Sprintf("has mode %s", mode), false
	}
	return "", mode.Perm()&0o011 == 0
}

func ownerOf(info fs.FileInfo) (uint32, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: its owner is not told", info.Name())
	}
	return stat.Uid, nil
}
