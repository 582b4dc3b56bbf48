package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/watch"
)

// look reads the files that may have changed. With an error the state of the files is unknown.
func (s *state) look(path string, c watch.Changes, now time.Time) (look, error) {
	if c.All || !s.single(path, c.Paths) {
		return s.lookAtAll(path, now)
	}
	var names, deleted []string
	for _, name := range c.Paths {
		_, err := os.Lstat(name)
		switch {
		case err != nil && s.knows(name):
			deleted = append(deleted, name)
		case err == nil && (named(filepath.Base(name)) || name == path):
			names = append(names, name)
		}
	}
	return look{files: s.read(names, now), deleted: deleted}, nil
}

// single reports whether each path is that of one file, or of none: a directory or a link may contain many files.
func (s *state) single(root string, paths []string) bool {
	for _, path := range paths {
		info, err := os.Lstat(path)
		switch {
		case err == nil && !info.Mode().IsRegular():
			return false
		case err != nil && !s.knows(path) && !named(filepath.Base(path)): // it may have been a directory
			return false
		case path == root && err != nil:
			return false
		}
	}
	return true
}

// lookAtAll reads the files whose Stat differs from the last one.
func (s *state) lookAtAll(path string, now time.Time) (look, error) {
	l, err := list(path)
	if err != nil {
		return look{}, err
	}
	there := make(map[string]bool, len(l.names))
	var changed []string
	for _, name := range l.names {
		there[name] = true
		if p := s.files[name]; p != nil && !p.stat.Fresh && s.waiting[name] == (waiting{}) {
			if now, err := stat(name); err == nil && now.same(p.stat) {
				continue
			}
		}
		changed = append(changed, name)
	}
	others := append(l.blocked, l.passed.found...)
	for _, f := range others {
		there[f.Name] = true
	}
	out := look{files: append(s.read(changed, now), parse(s.file, others)...)}
	for name := range s.known {
		if !there[name] && !slices.ContainsFunc(l.blocked, func(b File) bool { return strings.HasPrefix(name, b.Name+"/") }) {
			out.deleted = append(out.deleted, name)
		}
	}
	slices.Sort(out.deleted)
	return out, nil
}

func (s *state) file(name string) *parsed { return s.files[name] }

func (s *state) knows(name string) bool {
	_, waits := s.waiting[name]
	return waits || s.files[name] != nil
}

// known yields the names of the files that existed at the last look.
func (s *state) known(yield func(string) bool) {
	for name := range s.files {
		if !yield(name) {
			return
		}
	}
	for name := range s.waiting {
		if s.files[name] == nil && !yield(name) {
			return
		}
	}
}

// read reads files, and decodes their new documents.
func (s *state) read(names []string, now time.Time) []*parsed {
	left := maxTotal - s.size
	for _, name := range names {
		if p := s.files[name]; p != nil {
			left += p.stat.Size
		}
	}
	var files []File
	for _, name := range names {
		f := read(name, left, func(stat Stat) bool { return s.skipsRead(name, stat, now) })
		if isDeleted(f) {
			continue
		}
		left -= int64(len(f.Data))
		files = append(files, f)
	}
	return parse(s.file, files)
}
