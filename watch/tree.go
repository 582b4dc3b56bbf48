package watch

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxPaths is how many changed paths are named one by one.
const maxPaths = 4096

// Tree watches a directory with all directories below it, or a file, and says which files may have changed.
type Tree struct {
	Path    string
	Quiet   time.Duration // changes are reported after this long without another
	Ceiling time.Duration // but not later than this after the first one
	Recheck time.Duration // how often everything is to be looked at, also without an event; 0 is never
	Log     *slog.Logger
}

// Changes are the paths of files that may have changed, below the Path of the Tree as it was given.
type Changes struct {
	All   bool // any file may have changed
	Paths []string
}

// Run says All when the watches stand, then what changes, until ctx is done. Changes that come while no receiver takes
// the last ones are reported together.
func (t Tree) Run(ctx context.Context, out chan<- Changes) error {
	watched := newArmed([]string{t.Path}, t.Log)
	watched.deep = true
	a := newRechecked(watched, t.Recheck)
	defer a.close()
	changes := newBurst(t.Quiet, t.Ceiling)
	defer changes.calm.Stop()

	seen := collected{all: true}
	send := out // nil while there is nothing to say, or it is not calm yet
	for {
		var next Changes
		if send != nil {
			next = seen.changes()
		}
		select {
		case <-ctx.Done():
			return nil
		case send <- next:
			seen, send = collected{}, nil
		case e := <-a.events():
			path, what := a.place(t.Path, e.Name)
			if what == elsewhere {
				continue
			}
			if what == anywhere || a.moves(e) {
				seen.all = true
				a.arm()
			} else {
				seen.add(path)
			}
			changes.changed()
		case err := <-a.errors(): // a queue that overflowed has lost events
			t.Log.Warn("watch lost events", "err", err)
			seen.all = true
			a.arm()
			changes.changed()
		case <-changes.calm.C:
			changes.told()
			send = out
		case <-a.timer.C:
			a.arm()
			seen.all, send = true, out
		}
	}
}

// collected is the changes since the last report.
type collected struct {
	all   bool
	paths map[string]bool
}

func (c *collected) add(path string) {
	if c.paths == nil {
		c.paths = map[string]bool{}
	}
	c.paths[path] = true
	c.all = c.all || len(c.paths) > maxPaths
}

func (c *collected) changes() Changes {
	if c.all {
		return Changes{All: true}
	}
	return Changes{Paths: slices.Sorted(maps.Keys(c.paths))}
}

// The meaning of an event's name.
type where int

const (
	elsewhere where = iota // nothing that is read
	anywhere               // more than one file, or one that cannot be told from its name
	single                 // the file of that path
)

// place returns which file an event is about. Hidden files and directories are not read, but for Kubernetes' "..data",
// which stands for all files of a volume. Where there are links below the root, no event says which files it is about.
func (a *armed) place(root, name string) (string, where) {
	target := a.targets[0]
	rest, below := strings.CutPrefix(name, strings.TrimSuffix(target, string(filepath.Separator))+string(filepath.Separator))
	switch {
	case !below && name != target:
		if a.linked || relevant(name, a.targets) {
			return "", anywhere
		}
		return "", elsewhere
	case !below || a.linked || len(a.targets) > 1:
		return "", anywhere
	}
	for part := range strings.SplitSeq(rest, string(filepath.Separator)) {
		if strings.HasPrefix(part, "..") {
			return "", anywhere
		}
		if strings.HasPrefix(part, ".") {
			return "", elsewhere
		}
	}
	return filepath.Join(root, rest), single
}

// moves reports whether an event is one of a directory or a link, after which other directories are to be watched.
func (a *armed) moves(e fsnotify.Event) bool {
	if e.Op&^(fsnotify.Write|fsnotify.Chmod) == 0 {
		return false
	}
	if _, watched := a.watched[e.Name]; watched {
		return true
	}
	info, err := os.Lstat(e.Name)
	return err == nil && !info.Mode().IsRegular()
}

// below returns the directories below dir that are to be watched as well, and whether there are links among what is
// there. Hidden ones are left out. A link adds the directory that it leads to, or that its file is in.
func below(dir string) (dirs []string, linked bool) {
	known := map[string]bool{dir: true}
	for todo := []string{dir}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		entries, err := os.ReadDir(at)
		if err != nil {
			continue // the reader of the file reports that
		}
		for _, e := range entries {
			path := filepath.Join(at, e.Name())
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			switch {
			case e.Type()&os.ModeSymlink != 0:
				linked = true
				path = real(path)
				if !isDir(path) {
					path = filepath.Dir(path)
					if isDir(path) && !known[path] { // for its files, not for what is below
						known[path] = true
						dirs = append(dirs, path)
					}
					continue
				}
			case !e.IsDir():
				continue
			}
			if !known[path] {
				known[path] = true
				dirs, todo = append(dirs, path), append(todo, path)
			}
		}
	}
	return dirs, linked
}
