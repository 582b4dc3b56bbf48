package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/watch"
)

// Limits of reading, in bytes. A file that exceeds one of them is refused by name.
const (
	maxFile   = 16 << 20
	maxStream = 64 << 20 // of standard input
	maxTotal  = 256 << 20
)

// Stat identifies the content of a file without reading it.
type Stat struct {
	Size     int64
	Modified time.Time
	Changed  int64 // change time of the inode, which a rename and a chmod change too: nanoseconds since 1970
	Inode    uint64
	Writing  bool // a process has it open for writing
	Fresh    bool // it was written just before it was read: a further write may leave the same values
}

// fresh is longer than the clock tick of any file system.
const fresh = 100 * time.Millisecond

// same reports whether the file was not written in between.
func (s Stat) same(o Stat) bool {
	return s.Size == o.Size && s.Modified.Equal(o.Modified) && s.Changed == o.Changed && s.Inode == o.Inode
}

// Read returns the configuration files of a directory and of all below it by name, or the one file that path is. A file
// that cannot be read, or is passed over, is among them with the reason; if Read itself returns an error, the state of the
// files is unknown.
func Read(path string) ([]File, error) {
	l, err := list(path)
	if err != nil {
		return nil, err
	}
	var total int64
	var files []File
	for _, name := range l.names {
		f := read(name, maxTotal-total, func(Stat) bool { return false })
		if isDeleted(f) {
			continue
		}
		total += int64(len(f.Data))
		files = append(files, f)
	}
	return append(append(files, l.blocked...), l.passed.found...), nil
}

// listing is the content of a directory and of all below it.
type listing struct {
	names   []string // of files, sorted
	blocked []File   // directories that cannot be read, each with its error
	passed  skips    // files that are left out, though they look like configuration
}

// list looks for configuration files. Hidden files and directories are left out: they belong to editors, version
// control and Kubernetes. A directory that two paths lead to is read once, by the path without a link.
func list(path string) (listing, error) {
	info, err := os.Stat(path)
	if err != nil {
		return listing{}, fmt.Errorf("read configuration: %w", err)
	}
	if !info.IsDir() {
		return listing{names: []string{path}}, nil
	}
	if _, err := os.ReadDir(path); err != nil {
		return listing{}, fmt.Errorf("read configuration: %w", err)
	}
	l := listing{passed: skips{left: maxPassed}}
	known := map[[2]uint64]bool{}
	for todo := []string{path}; len(todo) > 0; {
		links := l.walk(todo, known)
		todo = links
	}
	slices.Sort(l.names)
	return l, nil
}

// walk adds the files in the directories and below them, and returns the links to further directories.
func (l *listing) walk(todo []string, known map[[2]uint64]bool) (links []string) {
	for len(todo) > 0 {
		dir := todo[0]
		todo = todo[1:]
		info, err := os.Stat(dir)
		if err == nil {
			id := identity(info)
			if known[id] {
				continue
			}
			known[id] = true
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			if f := (File{Name: dir, Err: reason(err)}); !isDeleted(f) {
				l.blocked = append(l.blocked, f)
			}
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case strings.HasPrefix(e.Name(), ".") && e.IsDir():
				l.passed.hidden(path)
			case strings.HasPrefix(e.Name(), "."):
			case e.IsDir():
				todo = append(todo, path)
			case e.Type()&fs.ModeSymlink != 0 && isDir(path):
				links = append(links, path)
			case named(e.Name()):
				l.names = append(l.names, path)
			default:
				l.passed.name(path)
			}
		}
	}
	return links
}

func identity(info fs.FileInfo) [2]uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return [2]uint64{uint64(s.Dev), s.Ino}
	}
	return [2]uint64{}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// named reports whether a file's name is that of a configuration file. Files of editors and of Kubernetes begin with a
// dot.
func named(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// stat returns the Stat of a file without reading it.
func stat(name string) (Stat, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Stat{}, err
	}
	return statOf(info), nil
}

func statOf(info fs.FileInfo) Stat {
	s := Stat{Size: info.Size(), Modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode, s.Changed = sys.Ino, sys.Ctim.Nano()
	}
	return s
}

// read reads at most left bytes of a file. If a process is writing the file and wait returns true, it is not read.
func read(name string, left int64, wait func(Stat) bool) File {
	f := File{Name: name}
	file, err := safefile.Open(name)
	if err != nil {
		f.Err = reason(err)
		return f
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		f.Err = reason(err)
		return f
	}
	f.Stat = statOf(info)
	f.Stat.Fresh = time.Since(time.Unix(0, f.Stat.Changed)) < fresh
	f.Stat.Writing = openForWriting(file)
	if f.Stat.Writing && wait(f.Stat) {
		f.Unfinished = true
		return f
	}
	most := min(maxFile, left)
	f.Data, err = safefile.Content(file, most)
	switch {
	case errors.Is(err, safefile.ErrTooLong) && most < maxFile:
		f.Err = fmt.Errorf("is one too many, want at most %d MiB of configuration in all files", maxTotal>>20)
	case errors.Is(err, safefile.ErrTooLong):
		f.Err = fmt.Errorf("%w: put its objects into several files", reason(err))
	case err != nil:
		f.Err = reason(err)
	}
	return f
}

// ReadAll reads a file that has no name in the file system, such as standard input.
func ReadAll(name string, in io.Reader) File {
	f := File{Name: name}
	switch f.Data, f.Err = io.ReadAll(io.LimitReader(in, maxStream+1)); {
	case f.Err != nil:
		f.Data = nil
	case len(f.Data) > maxStream:
		f.Data, f.Err = nil, fmt.Errorf("%w: it has more than %d MiB: put its objects into several files", safefile.ErrTooLong, maxStream>>20)
	}
	return f
}

// openForWriting reports whether a process has the file open for writing: then the kernel grants no read lease. A lease
// of another user's file needs CAP_LEASE, and some file systems have no leases; there only the time since the last
// write counts.
func openForWriting(file *os.File) bool {
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK) // close would release it too
	}
	return errors.Is(err, unix.EAGAIN)
}

// isDeleted reports whether a file was deleted since the directory was listed; it is false for a dangling link.
func isDeleted(f File) bool {
	if !errors.Is(f.Err, fs.ErrNotExist) {
		return false
	}
	_, err := os.Lstat(f.Name)
	return errors.Is(err, fs.ErrNotExist)
}

// reason returns the error without the path, which problems show anyway.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// scan reads the files that may have changed. With an error the state of the files is unknown.
func (s *state) scan(path string, c watch.Changes, now time.Time) (scan, error) {
	if c.All || !s.single(path, c.Paths) {
		return s.scanAll(path, now)
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
	return scan{files: s.read(names, now), deleted: deleted}, nil
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

// scanAll reads the files whose Stat differs from the last one.
func (s *state) scanAll(path string, now time.Time) (scan, error) {
	l, err := list(path)
	if err != nil {
		return scan{}, err
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
	out := scan{files: append(s.read(changed, now), parse(s.file, others)...)}
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

// Why a file that has objects of Istio is passed over.
var (
	errName   = errors.New("is not read, though it has objects of Istio: want a name that ends in .yaml, .yml or .json")
	errHidden = errors.New("is not read, though it has objects of Istio, because its directory's name begins with a dot")
)

// Bounds of the search for them: so many files and hidden directories in all, and so many bytes of each file.
const (
	maxPassed  = 1000
	passedRead = 64 << 10
)

var ofIstio = regexp.MustCompile(`(?:^|[\s{,"'])apiVersion["']?\s*:\s*["']?[a-z.-]*\.istio\.io/`)

// skips are the files that one look finds and does not read, though they have objects of Istio.
type skips struct {
	found []File
	left  int // of maxPassed
}

// name looks at a file of another name than those that are read. Names such as a.yaml.bak and a.yaml~ are chosen so that a
// file is not read; one without an extension, or with capital letters, is rather a mistake.
func (p *skips) name(path string) {
	if ext := filepath.Ext(path); ext == "" || named(strings.ToLower(filepath.Base(path))) {
		p.check(path, errName)
	}
}

// hidden looks at the files in a hidden directory and below it. The directories of Kubernetes' volumes begin with two dots; git
// keeps no file as it is.
func (p *skips) hidden(dir string) {
	for todo := []string{dir}; len(todo) > 0 && p.left > 0; todo = todo[1:] {
		p.left--
		if name := filepath.Base(todo[0]); name == ".git" || strings.HasPrefix(name, "..") {
			continue
		}
		entries, _ := os.ReadDir(todo[0])
		for _, e := range entries {
			switch path := filepath.Join(todo[0], e.Name()); {
			case e.IsDir():
				todo = append(todo, path)
			case named(e.Name()):
				p.check(path, errHidden)
			}
		}
	}
}

func (p *skips) check(path string, fault error) {
	if p.left <= 0 {
		return
	}
	p.left--
	file, err := safefile.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	if text, err := io.ReadAll(io.LimitReader(file, passedRead)); err == nil && ofIstio.Match(text) {
		p.found = append(p.found, File{Name: path, Passed: fault})
	}
}
