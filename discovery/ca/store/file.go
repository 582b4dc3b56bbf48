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
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/atomicfile"
)

const (
	lockFile  = "lock"
	patience  = 5 * time.Second // for another process that holds the lock
	lockAgain = 10 * time.Millisecond
)

// errHeld is the error for a lock that another process holds too long.
var errHeld = fmt.Errorf("another process has held it for %s", patience)

// locked calls do while it holds the lock of a directory.
func locked(dir string, do func() error) error {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	defer file.Close() // which ends the lock
	for began := time.Now(); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return do()
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		case time.Since(began) > patience:
			return fmt.Errorf("lock %s: %w", file.Name(), errHeld)
		}
		time.Sleep(lockAgain)
	}
}

// write writes a file whole, or leaves the one before.
func write(dir, name string, content []byte, mode os.FileMode) error {
	return atomicfile.Write(filepath.Join(dir, "."+name+".new"), filepath.Join(dir, name), content, mode)
}

// change is a change of a file: another content, or, without content, that there is no such file.
type change struct {
	name    string
	content []byte
	mode    os.FileMode
}

func removed(names ...string) (out []change) {
	for _, name := range names {
		out = append(out, change{name: name})
	}
	return out
}

// do makes changes, in their order. It ends with the first one that fails: what is made of a directory by the first
// ones alone is a state from which it goes on.
func do(dir string, changes []change) error {
	for _, c := range changes {
		if c.content != nil {
			if err := write(dir, c.name, c.content, c.mode); err != nil {
				return err
			}
		} else if err := os.Remove(filepath.Join(dir, c.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

const mostLinks = 40 // of a path, as the kernel has it

// judge refuses a path that another user than this one and root could replace: each directory and link that leads to it
// belongs to one of them, and no directory can be written by others, but those with the sticky bit, where nobody
// removes the files of others. A secret file is read by its owner, and by this process's groups.
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

// Moved returns an error if an authority is in a directory that was the default before, and none in the one that is the
// default now: a second authority, made by accident, would end mutual TLS.
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
