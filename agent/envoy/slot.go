package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Slot is a directory that one agent owns while it lives, and a record there of the Envoys that it started:
//
//	configPath/agent.lock          the first agent
//	configPath/agent-1/agent.lock  one that found configPath taken, and so on
//
// The kernel drops the lock when its agent dies in any way. An agent that locks a file with a record in it clears up after the
// killed agent that wrote the record. It touches nothing that the record does not name.
type Slot struct {
	dir  string
	made []string // directories that were not there before, to be removed in this order
	log  *slog.Logger

	mu     sync.Mutex
	lock   *os.File
	record record
	refuge string // see Room; empty for none
}

const (
	slots      = 64 // agents that share a configPath
	slotPrefix = "agent-"
	lockName   = "agent.lock"
)

// Claim takes the first free slot of configPath, which it makes if it is missing, ends what killed predecessors left
// running there and in the other free slots, and removes their files and shared memory.
func Claim(configPath string, log *slog.Logger) (*Slot, error) {
	made, err := makeDir(configPath)
	if err != nil {
		return nil, claimError(configPath, err)
	}
	for n := range slots {
		s, err := take(slotDir(configPath, n), log)
		if err != nil {
			return nil, claimError(configPath, err)
		}
		if s == nil {
			continue
		}
		if err := errors.Join(filesOf(s.dir, maxEpoch, "json").check(), sockets{dir: s.dir}.check()); err != nil {
			return nil, errors.Join(err, s.Release())
		}
		s.made = append(s.made, made...)
		s.inheritOthers(configPath, n+1)
		return s, nil
	}
	return nil, fmt.Errorf("claim %s: %d agents hold it; set another configPath", configPath, slots)
}

func slotDir(configPath string, n int) string {
	if n == 0 {
		return configPath
	}
	return filepath.Join(configPath, slotPrefix+strconv.Itoa(n))
}

// inheritOthers clears up free slots, which may stay unclaimed for long: an Envoy that runs there would keep its ports.
func (s *Slot) inheritOthers(configPath string, from int) {
	entries, err := os.ReadDir(configPath) // one question, where most often there is nothing
	if err != nil {
		s.log.Warn("look for the slots of other agents", "dir", configPath, "err", err)
		return
	}
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), slotPrefix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < from || n >= slots {
			continue
		}
		dir := slotDir(configPath, n)
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			continue
		}
		other, err := take(dir, s.log)
		if other != nil {
			other.made = append(other.made, dir) // by the one that was killed
			err = other.Release()
		}
		if err != nil {
			s.log.Warn("clear the slot of another agent", "dir", dir, "err", err)
		}
	}
}

// take returns nil when another agent holds the slot.
func take(dir string, log *slog.Logger) (*Slot, error) {
	made, err := makeDir(dir)
	if err != nil {
		return nil, err
	}
	if err := checkDir(dir, len(made) == 0, log); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if lock == nil {
		return nil, err
	}
	s := &Slot{dir: dir, made: made, log: log, lock: lock}
	if s.record, err = newRecord(); err == nil {
		s.record.Children = s.inherit()
		err = s.record.write(lock)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// checkDir looks at a directory that a slot is in. One that was there before may belong to another user.
func checkDir(dir string, there bool, log *slog.Logger) error {
	if !there {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is unknown", dir)
	}
	open, err := judgeDir(stat.Uid, uint32(os.Geteuid()), info.Mode())
	if err != nil {
		return fmt.Errorf("%s %w", dir, err)
	}
	if open {
		log.Info("other users may write to the directory, and so give Envoy another bootstrap; mount it into no other container",
			"dir", dir, "mode", info.Mode().String())
	}
	return nil
}

// judgeDir refuses a directory of a user who is neither root nor self: its owner may rename and replace each file in it,
// even if the modes of the files forbid writing. It reports whether others may do the same.
func judgeDir(owner, self uint32, mode fs.FileMode) (open bool, err error) {
	if owner != self && owner != 0 {
		return false, fmt.Errorf("belongs to user %d, who may replace what Envoy reads there: want one of user %d, or of root", owner, self)
	}
	return mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0, nil
}

// lockFile returns nil without an error when another process holds the lock.
func lockFile(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, file.Close()
		case err != nil:
			return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, file.Close())
		case sameFile(file, path):
			if err := onlyOurs(file); err != nil {
				return nil, errors.Join(err, file.Close())
			}
			return file, nil
		}
		file.Close() // its owner removed it between open and lock: the lock is on nothing
	}
}

// onlyOurs refuses a record that another user may have written: it names processes to end and memory to remove.
func onlyOurs(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", file.Name())
	case stat.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to user %d, and this is user %d: remove it", file.Name(), stat.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0 || stat.Nlink != 1:
		return fmt.Errorf("%s may be written to by others (mode %s, %d names): remove it", file.Name(), info.Mode(), stat.Nlink)
	}
	return nil
}

func sameFile(file *os.File, path string) bool {
	opened, err1 := file.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// Dir is where the owner's files go: bootstraps, admin sockets, flight records.
func (s *Slot) Dir() string { return s.dir }

// Starting records that a child of a family, 0 for none, is about to be forked, so that a crash leaves at most a
// family to sweep: until Started has recorded it, the child is killed with its agent. See tie.
func (s *Slot) Starting(family Family) error {
	return s.change(func(r *record) { r.Children = append(r.Children, child{Family: family}) })
}

// Started records the child that Starting announced. Before it is waited for, its facts can be read even if it has
// ended.
func (s *Slot) Started(pid int, family Family) error {
	facts, err := FactsOf(pid)
	return errors.Join(err, s.change(func(r *record) {
		announced := slices.IndexFunc(r.Children, func(c child) bool { return c == child{Family: family} })
		if announced >= 0 {
			r.Children = slices.Delete(r.Children, announced, announced+1)
		}
		r.Children = append(r.Children, child{Pid: pid, Start: facts.Start, Family: family})
	}))
}

// NotStarted forgets a child that Starting announced and that could not be forked.
func (s *Slot) NotStarted(family Family) error {
	return s.forget(func(c child) bool { return c == child{Family: family} })
}

// Ended forgets a child that has been reaped.
func (s *Slot) Ended(pid int) error { return s.forget(func(c child) bool { return c.Pid == pid }) }

// forget also sweeps the child's family if it was the last of it.
func (s *Slot) forget(named func(child) bool) error {
	var gone child
	last := false
	err := s.change(func(r *record) {
		i := slices.IndexFunc(r.Children, named)
		if i < 0 {
			return
		}
		gone = r.Children[i]
		r.Children = slices.Delete(r.Children, i, i+1)
		last = !slices.ContainsFunc(r.Children, func(c child) bool { return c.Family == gone.Family })
	})
	if last {
		err = errors.Join(err, s.sweep(gone.Family))
	}
	return err
}

// sweep removes what a family has left that has ended.
func (s *Slot) sweep(f Family) error {
	if f == 0 {
		return nil
	}
	return errors.Join(f.Sweep(), sockets{s.dir, f}.remove())
}

func (s *Slot) change(f func(*record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.record)
	return s.record.write(s.lock)
}

// Release gives the slot back. While a recorded child has not ended, its record stays for an heir; else everything
// that the claim made goes.
func (s *Slot) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if len(s.record.Children) == 0 {
		err = os.Remove(s.lock.Name()) // still locked: see lockFile
		for _, dir := range s.made {
			if removed := os.Remove(dir); !errors.Is(removed, syscall.ENOTEMPTY) {
				err = errors.Join(err, removed)
			}
		}
	}
	return errors.Join(err, s.lock.Close())
}

// makeDir makes a directory and its parents, and returns it if it was not there.
func makeDir(dir string) ([]string, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil
	}
	return []string{dir}, err
}

// claimError says what to do.
func claimError(configPath string, err error) error {
	advice := "set another configPath"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "free some space there, or set another configPath"
	case errors.Is(err, syscall.EROFS):
		advice = "mount it writable, or set another configPath"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		advice = fmt.Sprintf("let uid %d write there, or set another configPath", os.Getuid())
	case errors.Is(err, syscall.ENOTDIR):
		advice = "it must be a directory"
	}
	return fmt.Errorf("claim %s: %w; %s", configPath, err, advice)
}
