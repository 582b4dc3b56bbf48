package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const mostLinks = 40 // of a path, as the kernel has it

// judge refuses a path that another user than this one and root could replace: each directory and link that leads to it belongs to one of
// them, and no directory can be written by others, but those with the sticky bit, where nobody removes the files of others. A secret file
// is read by its owner, and by this process's groups.
func judge(path string, secret bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := "/", split(path)
	for links := 0; ; {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if err := judgeOne(path, at, info, len(rest) == 0, secret); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(at)
			if links++; err != nil || links > mostLinks {
				return errors.Join(err, fmt.Errorf("%s: has more than %d links", path, mostLinks))
			}
			if rest, at = append(split(to), rest...), filepath.Dir(at); filepath.IsAbs(to) {
				at = "/"
			}
			continue
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // at is no link, so .. leads to its parent
	}
}

// split returns the parts of a path that lead on.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." })
}

func judgeOne(path, at string, info fs.FileInfo, last, secret bool) error {
	owner, group, mode := -1, -1, info.Mode()
	if of, is := info.Sys().(*syscall.Stat_t); is {
		owner, group = int(of.Uid), int(of.Gid)
	}
	of := path
	if at != path {
		of = fmt.Sprintf("%s: %s", path, at)
	}
	if owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("%s: belongs to user %d, who could replace the authority: want user %d or root", of, owner, os.Geteuid())
	}
	switch own, _ := os.Getgroups(); {
	case mode&fs.ModeSymlink != 0:
	case mode.Perm()&0o022 != 0 && (last || mode&fs.ModeSticky == 0):
		return fmt.Errorf("%s: has mode %04o, so other users could replace the authority: want no write permission for group and others", of, mode.Perm())
	case secret && last && mode.Perm()&0o007 != 0:
		return fmt.Errorf("%s: has mode %04o, so every user can use the key: want 0600", of, mode.Perm())
	case secret && last && mode.Perm()&0o070 != 0 && group != os.Getegid() && !slices.Contains(own, group):
		return fmt.Errorf("%s: has mode %04o, so the group %d can use the key, which is not one of this process: want 0600", of, mode.Perm(), group)
	}
	return nil
}

// Moved returns an error if an authority is in a directory that was the default before, and none in the one that is the default now: a second
// authority, made by accident, would end mutual TLS.
func Moved(from, to string) error {
	holds := func(dir string) bool {
		return slices.ContainsFunc([]string{ca.CertFile, ca.KeyFile, tokensFile}, func(name string) bool {
			_, err := os.Lstat(filepath.Join(dir, name))
			return err == nil
		})
	}
	if !holds(from) || holds(to) {
		return nil
	}
	return fmt.Errorf("its default is %[2]s now, and the authority is in %[1]s, below the directory of the proxy's user, who could replace it; "+
		"move it: mkdir -p -m 0700 %[3]s && mv -T %[1]s %[2]s && chown -R --reference=%[3]s %[2]s", from, to, filepath.Dir(to))
}
