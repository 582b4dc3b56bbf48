package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// ground is a configPath, in which agents claim slots.
type ground struct {
	path string
	base *os.File // open if other users may write to configPath; else nil
	log  *slog.Logger
}

// Claim takes the first free slot of configPath, and creates configPath if it is missing. In this slot and in the other
// free ones it ends the processes that killed agents left, and removes their files and shared memory.
func Claim(configPath string, log *slog.Logger) (*Slot, error) {
	var made []string
	var g ground
	err := again(func() (err error) {
		if made, err = makeDir(configPath); err == nil {
			g, err = survey(configPath, log)
		}
		return err
	})
	if err != nil {
		return nil, claimError(configPath, err)
	}
	s, n, err := g.claim()
	if err != nil {
		return nil, errors.Join(err, g.leave())
	}
	s.made = append(s.made, made...)
	g.inheritOthers(n + 1)
	return s, nil
}

// again repeats a step that finds a directory missing: another agent that stops has removed it since the step made or found it. Three
// times are the most that agents which start and stop without pause need; the bound is for a broken link, behind which there is never one.
func again(step func() error) (err error) {
	for range 64 {
		if err = step(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

func (g ground) claim() (s *Slot, number int, err error) {
	strangers := 0
	for n := range slots {
		err := again(func() (err error) { s, err = g.claimNumber(n, true); return err })
		var stranger notOurs
		switch {
		case errors.As(err, &stranger):
			g.log.Warn("name of a slot is taken", "dir", g.name(n), "why", stranger.why)
			strangers++
			continue
		case err != nil:
			return nil, 0, claimError(g.path, err)
		case s == nil:
			continue
		}
		in := room{s.dir, s.token}
		err = errors.Join(filesOf(in, epochName(maxEpoch), "json").check(), hotrestart.Sockets{Dir: in.dir, Token: in.token}.Check())
		if err == nil && s.opened != nil {
			_, err = unix.FcntlInt(s.opened.Fd(), unix.F_SETFD, 0) // Envoy inherits it
		}
		if err != nil {
			return nil, 0, errors.Join(err, s.Release())
		}
		return s, n, nil
	}
	if strangers > 0 {
		return nil, 0, fmt.Errorf("claim %s: others have made %d of the %d names of slots: remove them, or set another configPath",
			g.path, strangers, slots)
	}
	return nil, 0, fmt.Errorf("claim %s: %d agents hold it; set another configPath", g.path, slots)
}

// survey examines configPath, which may belong to another user if it existed before.
func survey(configPath string, log *slog.Logger) (ground, error) {
	g := ground{path: configPath, log: log}
	base, err := os.OpenFile(configPath, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return g, err
	}
	if err := checkDir(base); err != nil {
		return g, errors.Join(err, base.Close())
	}
	why, err := exposed(configPath, uint32(os.Geteuid()))
	if why == "" {
		return g, errors.Join(err, base.Close())
	}
	log.Info("others may write to configPath: the agent works in a directory of it that only its user may enter",
		"configPath", configPath, "why", why)
	g.base = base
	return g, nil
}

func (g ground) leave() error {
	if g.base == nil {
		return nil
	}
	return g.base.Close()
}

// SlotNames returns the paths that the slots of a configPath may have.
func SlotNames(configPath string) (names []string) {
	for n := range slots {
		names = append(names, ground{path: configPath}.name(n), filepath.Join(configPath, privateName(n)))
	}
	return names
}

func (g ground) name(n int) string {
	switch {
	case g.base != nil:
		return filepath.Join(g.path, privateName(n))
	case n == 0:
		return g.path
	}
	return filepath.Join(g.path, slotPrefix+strconv.Itoa(n))
}

// inheritOthers clears the other free slots, which no agent may claim for a long time: a process left there would keep
// its ports.
func (g ground) inheritOthers(from int) {
	for _, n := range g.others(from) {
		other, err := g.claimNumber(n, false)
		if other != nil {
			if g.base == nil {
				other.made = append(other.made, other.name) // by the one that was killed
			}
			err = other.Release()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			g.log.Warn("slot of another agent not cleared", "dir", g.name(n), "err", err)
		}
	}
}

// others returns the numbers of slots that may exist. A directory to which other users may write is not read: it may
// have any number of entries.
func (g ground) others(from int) (numbers []int) {
	if g.base != nil {
		for n := from; n < slots; n++ {
			numbers = append(numbers, n)
		}
		return numbers
	}
	entries, err := os.ReadDir(g.path) // one read, since most often there is no other slot
	if err != nil {
		g.log.Warn("slots of other agents not listed", "dir", g.path, "err", err)
	}
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), slotPrefix)
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < from || n >= slots {
			continue
		}
		if _, err := os.Stat(filepath.Join(g.name(n), lockName)); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// claimNumber returns nil if another agent holds the slot, and notOurs if something else has the slot's name.
func (g ground) claimNumber(n int, mayMake bool) (*Slot, error) {
	s, err := g.enter(n, mayMake)
	if err != nil {
		return nil, err
	}
	held, err := s.hold()
	if err != nil || !held {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// hold locks a slot that has been entered, and clears up after its last owner.
func (s *Slot) hold() (held bool, err error) {
	s.lock, err = lockFile(filepath.Join(s.dir, lockName))
	switch {
	case s.base != nil && errors.Is(err, fs.ErrNotExist):
		return false, errRemoved
	case s.lock == nil:
		return false, err
	}
	s.token = newToken()
	if s.record, err = newRecord(); err == nil {
		s.record.Children = s.inherit()
		err = s.record.write(s.lock)
	}
	return err == nil, err
}

// enter opens the directory of a slot.
func (g ground) enter(n int, mayMake bool) (*Slot, error) {
	s := &Slot{name: g.name(n), base: g.base, log: g.log}
	s.forked = sync.NewCond(&s.mu)
	if g.base != nil {
		dir, err := openPrivate(g.base, n, mayMake)
		if err != nil {
			return nil, err
		}
		s.opened, s.dir = dir, throughFd(dir)
		return s, nil
	}
	dir, made, err := openOwn(s.name)
	if err != nil {
		return nil, err
	}
	s.dir, s.made = s.name, made
	if (hotrestart.Sockets{Dir: s.dir, Token: newToken()}).Check() != nil {
		err = s.shorten(dir)
	}
	return s, errors.Join(err, dir.Close())
}

// openOwn opens a directory that checkDir takes, and makes it if it is missing; see makeDir.
func openOwn(path string) (dir *os.File, made []string, err error) {
	if made, err = makeDir(path); err != nil {
		return nil, nil, err
	}
	if dir, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if err := checkDir(dir); err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	return dir, made, nil
}

// shorten replaces the path of a slot, which is too long for sockets, by the path through its descriptor, if there is
// /dev/fd.
func (s *Slot) shorten(dir *os.File) error {
	opened, err := keepOpen(dir)
	if err != nil {
		return err
	}
	if !sameFile(opened, throughFd(opened)) {
		return opened.Close()
	}
	s.opened, s.dir = opened, throughFd(opened)
	return nil
}

// checkDir refuses a directory whose owner is neither root nor the agent's user: the owner may rename and replace each
// file in it, also one with a strict mode.
func checkDir(dir *os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	owner, err := ownerOf(info)
	if self := uint32(os.Geteuid()); err == nil && owner != self && owner != 0 {
		err = fmt.Errorf("%s belongs to user %d, who may replace what Envoy reads there: want one of user %d, or of root",
			dir.Name(), owner, self)
	}
	return err
}

// makeDir makes a directory and its parents, and returns the directory if it did not exist before.
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

// claimError adds advice to an error.
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
