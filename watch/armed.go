package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// armed is the set of directories that the system watches for us.
type armed struct {
	log     *slog.Logger
	paths   []string // as asked for, absolute
	targets []string // where they are, free of symbolic links
	notify  *fsnotify.Watcher
	watched map[string]os.FileInfo // by directory; tells one made anew from the one that was
	blind   bool                   // the system refuses a watch that is wanted
	deep    bool                   // directories are watched with all that are below them
	linked  bool                   // and there are links among what is below
	told    string                 // the last refusal logged
}

// newArmed watches nothing yet.
func newArmed(paths []string, log *slog.Logger) *armed {
	a := &armed{log: log, watched: map[string]os.FileInfo{}}
	for _, p := range paths {
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		a.paths = append(a.paths, p)
	}
	return a
}

func (a *armed) close() {
	if a.notify != nil {
		_ = a.notify.Close() // nothing is written through it
	}
}

// events is nil, which never delivers, where the system grants no watch.
func (a *armed) events() <-chan fsnotify.Event {
	if a.notify == nil {
		return nil
	}
	return a.notify.Events
}

func (a *armed) errors() <-chan error {
	if a.notify == nil {
		return nil
	}
	return a.notify.Errors
}

// arm watches the directories that matter now. It looks again after adding: one that appeared between the look and
// the watch has sent no event.
func (a *armed) arm() {
	a.blind = false
	if a.notify == nil {
		var err error
		if a.notify, err = fsnotify.NewWatcher(); err != nil {
			a.notify = nil
			a.refuse(err)
			return
		}
	}
	for range 10 {
		a.targets = follow(a.paths)
		wanted := map[string]os.FileInfo{}
		for _, path := range a.targets {
			for _, dir := range directories(path) {
				if info, err := os.Stat(dir); err == nil {
					wanted[dir] = info
				}
			}
		}
		if a.deep {
			a.wantBelow(wanted)
		}
		if !a.replace(wanted) {
			return
		}
	}
}

// wantBelow adds the directories that are below a target.
func (a *armed) wantBelow(wanted map[string]os.FileInfo) {
	a.linked = false
	for _, path := range a.targets {
		if !isDir(path) {
			continue
		}
		dirs, linked := below(path)
		a.linked = a.linked || linked
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil {
				wanted[dir] = info
			}
		}
	}
}

// replace makes the watches what is wanted and reports whether any was added.
func (a *armed) replace(wanted map[string]os.FileInfo) (added bool) {
	live := a.notify.WatchList() // a directory that was deleted has left it, and its inode may serve the next one
	for dir, was := range a.watched {
		if now, ok := wanted[dir]; !ok || !os.SameFile(was, now) || !slices.Contains(live, dir) {
			_ = a.notify.Remove(dir) // often gone already, with its directory
			delete(a.watched, dir)
		}
	}
	for dir, info := range wanted {
		if _, ok := a.watched[dir]; ok {
			continue
		}
		if err := a.notify.Add(dir); errors.Is(err, fs.ErrNotExist) {
			continue // gone since the look, of which the one above it tells
		} else if err != nil {
			a.refuse(err)
			continue
		}
		a.watched[dir] = info
		added = true
	}
	return added
}

// refuse logs a fault once, however often the recheck meets it.
func (a *armed) refuse(err error) {
	a.blind = true
	if err.Error() != a.told {
		a.told = err.Error()
		a.log.Warn("watch refused, looking every second instead", "err", err)
	}
}
