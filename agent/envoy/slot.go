package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Slot is a directory that one agent owns while it runs, with a record of the Envoys that it has started:
//
//	configPath/agent.lock          the first agent
//	configPath/agent-1/agent.lock  the second one, which found configPath taken, and so on
//
// Where others may write to configPath, slots have other names: see privatePrefix.
//
// The kernel releases the lock when its agent ends in any way. If the lock file has a record, the agent that wrote it
// was killed, and the next agent that takes the lock clears up after it. It touches nothing that the record does not
// name.
type Slot struct {
	dir   string   // path by which the agent opens its files
	name  string   // path for users; if others may write to configPath, it may lead elsewhere
	token string   // of the sockets: see room
	made  []string // directories that the claim has made, to be removed in this order
	log   *slog.Logger

	base   *os.File // configPath, if other users may write to it; else nil
	opened *os.File // the slot, if dir leads through its descriptor: for a slot in base, and for a long path; else nil

	mu     sync.Mutex
	forked *sync.Cond // with mu: the record has changed
	lock   *os.File
	record record
	refuge string // see Room; empty for none
}

const (
	slots      = 64 // agents that share a configPath
	slotPrefix = "agent-"
	lockName   = "agent.lock"
)

// close closes the slot's files and removes nothing.
func (s *Slot) close() (err error) {
	if s.lock != nil {
		err = s.lock.Close()
	}
	if s.opened != nil {
		err = errors.Join(err, s.opened.Close())
	}
	return err
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
		file.Close() // its owner removed it between open and lock: the lock is on a deleted file
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

// Dir returns the directory of the owner's files: bootstraps, admin sockets, flight records. The path is for this
// process and its Envoys; Name is the path for users.
func (s *Slot) Dir() string { return s.dir }

// Name returns the path at which a user finds the files of Dir.
func (s *Slot) Name() string { return s.name }

// Starting records that a child of a family, 0 for none, is about to be forked. After a crash of the agent between
// Starting and Started only the family has to be swept, since the child is killed with its agent. See tie.
func (s *Slot) Starting(family hotrestart.BaseID) error {
	return s.change(func(r *record) { r.Children = append(r.Children, child{Family: family}) })
}

// Started records the child that Starting announced. It must be called before the child is reaped: until then its facts
// can be read, even if it has exited.
func (s *Slot) Started(pid int, family hotrestart.BaseID) error {
	facts, err := procnet.ReadStat(pid)
	return errors.Join(err, s.change(func(r *record) {
		announced := slices.IndexFunc(r.Children, func(c child) bool { return c == child{Family: family} })
		if announced >= 0 {
			r.Children = slices.Delete(r.Children, announced, announced+1)
		}
		r.Children = append(r.Children, child{Pid: pid, Start: facts.Start, Family: family})
	}))
}

// NotStarted removes the record of a child that Starting announced and that could not be forked.
func (s *Slot) NotStarted(family hotrestart.BaseID) error {
	return s.forget(func(c child) bool { return c == child{Family: family} })
}

// Ended removes the record of a child that has been reaped.
func (s *Slot) Ended(pid int) error { return s.forget(func(c child) bool { return c.Pid == pid }) }

// forget removes a child's record, and sweeps its family if it was the last child of the family.
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

// sweep removes the shared memory and sockets of a family that has ended.
func (s *Slot) sweep(f hotrestart.BaseID) error {
	if f == 0 {
		return nil
	}
	err := errors.Join(f.Sweep(), hotrestart.Sockets{Dir: s.dir, Token: s.token, BaseID: f}.Remove())
	s.mu.Lock()
	refuge := s.refuge
	s.mu.Unlock()
	if refuge != "" {
		err = errors.Join(err, hotrestart.Sockets{Dir: refuge, Token: s.token, BaseID: f}.Remove())
	}
	return err
}

func (s *Slot) change(f func(*record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.record)
	s.forked.Broadcast()
	return s.record.write(s.lock)
}

// Release frees the slot. While a recorded child has not ended, the record stays for the slot's next owner; else
// Release removes everything that the claim has made.
func (s *Slot) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if len(s.record.Children) == 0 {
		if path := filepath.Join(s.dir, lockName); sameFile(s.lock, path) { // else it is another agent's
			err = os.Remove(path) // still locked: see lockFile
		}
		if s.base != nil {
			err = errors.Join(err, removePrivate(s.base, s.opened))
		}
		for _, dir := range s.made {
			if removed := os.Remove(dir); !errors.Is(removed, syscall.ENOTEMPTY) {
				err = errors.Join(err, removed)
			}
		}
	}
	return errors.Join(err, s.close())
}
