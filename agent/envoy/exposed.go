package envoy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// exposed says why users other than self and root could replace what is in a directory, or the directory itself; it is
// empty where they cannot. It looks at each directory of the path, as it is written and without symbolic links.
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

// exposedAlong goes down from the root, to the first directory that others may change or may not enter.
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

// judgeStep judges one directory, or symbolic link, of a path. In a directory with the sticky bit others cannot rename what is
// not theirs, but they can take names that are free, which matters in the last one. Nobody gets through one that is shut.
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
