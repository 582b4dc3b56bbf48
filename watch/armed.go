package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// noise counts events that mean nothing: a log beside a watched file has thousands a second, and each wakes us up.
type noise struct {
	since time.Time
	n     int
}

const (
	noisePeriod = 100 * time.Millisecond
	noiseLimit  = 50 // events in a period; a volume that is mounted or an editor has fewer
)

// loud takes an event at a time, and reports whether there are so many that it is better to be deaf for a while.
func (s *noise) loud(now time.Time) bool {
	if now.Sub(s.since) > noisePeriod {
		*s = noise{since: now}
	}
	s.n++
	return s.n > noiseLimit
}

// deafen gives up every watch until the next arm.
func (a *armed) deafen() {
	a.close()
	a.notify = nil
	clear(a.watched)
}

// follow returns where the paths are, free of symbolic links on the way to them: each path, and where it leads if it
// is a link itself. One directory has one name then, which the system's watches need.
func follow(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Join(real(filepath.Dir(p)), filepath.Base(p)), real(p))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// real resolves the symbolic links of as much of path as exists.
func real(path string) string {
	for rest := ""; ; path = filepath.Dir(path) {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(found, rest)
		}
		if path == filepath.Dir(path) {
			return filepath.Join(path, rest)
		}
		rest = filepath.Join(filepath.Base(path), rest)
	}
}

// directories returns what to watch for one path: itself if it is a directory, and the nearest directory above it that
// exists, where it is renamed, replaced or made anew.
func directories(path string) []string {
	var out []string
	if isDir(path) {
		out = append(out, path)
	}
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		if isDir(parent) {
			return append(out, parent)
		}
		if parent == filepath.Dir(parent) {
			return out
		}
	}
}

// isDir is false for a link to a directory: follow has named that as well.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// relevant reports whether an event at name may change what is read at one of the paths: the path itself, an entry of
// it, a directory on the way to it, or a ..data beside it, by which Kubernetes swaps all files of a volume at once.
func relevant(name string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return name == path || filepath.Dir(name) == path || above(name, path) ||
			filepath.Dir(name) == filepath.Dir(path) && strings.HasPrefix(filepath.Base(name), "..")
	})
}

// above reports whether path is below the directory dir.
func above(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
