package lastgood

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// ErrNone is the error where nothing is remembered.
var ErrNone = errors.New("nothing is remembered yet")

// Loaded is an open file of a whole configuration.
type Loaded struct {
	Memory  *Memory
	Name    string    // its path, for users
	Plain   bool      // Envoy had no certificate of the mesh
	Contact time.Time // the last one with discovery: until then the configuration was the newest
	Cut     bool      // the file's end is half-written or broken, and does not count
	file    *os.File
	out     *bufio.Writer // of answers
}

// Load opens the file that fits: of those with a certificate the newest one, then of those without. It is looked for in the other
// directories too: agents that share a configPath may start in another order. most is how old the last contact may be; 0 for any age.
func (s *Store) Load(want Header, most time.Duration) (best *Loaded, err error) {
	err = ErrNone
	for i, dir := range append([]string{s.dir}, s.others...) {
		l, fault := load(filepath.Join(dir, FileName(want.Node)), want, most, s.now())
		switch {
		case fault == nil && best.before(l):
			best.Close()
			best = l
			if l.Name = s.Path(want.Node); i > 0 {
				l.Name = filepath.Join(dir, FileName(want.Node))
			}
		case fault == nil:
			l.Close()
		case errors.Is(fault, fs.ErrNotExist), i > 0: // nothing is reported of the others' directories
		default:
			err = fault
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, err
}

// before reports whether another file is to be preferred.
func (l *Loaded) before(other *Loaded) bool {
	switch {
	case l == nil:
		return true
	case l.Plain != other.Plain:
		return l.Plain
	}
	return l.Contact.Before(other.Contact)
}

// contactOf returns the time of the last contact of a file that fits, in nanoseconds; 0 if there is none.
func contactOf(path string, want Header) int64 {
	file, err := open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	h, contact, _, err := decodeHeader(file)
	if err != nil || h.differs(want) != "" {
		return 0
	}
	return contact.UnixNano()
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

func load(path string, want Header, most time.Duration, now time.Time) (*Loaded, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	l := &Loaded{file: file, out: bufio.NewWriterSize(nil, 32<<10)}
	if err := l.read(want, most, now); err != nil {
		file.Close()
		return nil, err
	}
	return l, nil
}

func (l *Loaded) read(want Header, most time.Duration, now time.Time) error {
	size, err := ours(l.file)
	if err != nil {
		return err
	}
	h, contact, _, err := decodeHeader(io.NewSectionReader(l.file, 0, size))
	if err != nil {
		return err
	}
	if why := h.differs(want); why != "" {
		return errors.New(why)
	}
	l.Contact, l.Plain = contact, !h.Certificate
	if age := now.Sub(contact); most > 0 && (age > most || age < -time.Hour) {
		return fmt.Errorf("it was the newest at %s, and may be %s old", contact.UTC().Format(time.RFC3339), most)
	}
	if l.Memory, l.Cut, err = replay(l.file, size); err != nil {
		return err
	}
	if !l.Memory.Serves() {
		return errors.New("it has no clusters or no listeners")
	}
	return nil
}

// ours returns the size of a file, or an error if somebody else may have written it.
func ours(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return 0, fmt.Errorf("it is no regular file: %s", info.Mode())
	case stat.Uid != uint32(os.Geteuid()):
		return 0, fmt.Errorf("it belongs to user %d, want %d", stat.Uid, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0 || stat.Nlink != 1:
		return 0, fmt.Errorf("others may open it: mode %s, %d names", info.Mode(), stat.Nlink)
	case info.Size() > mostFile:
		return 0, fmt.Errorf("it has %d bytes, want at most %d", info.Size(), mostFile)
	}
	return info.Size(), nil
}

// replay reads the records of a file up to its end, or to the first one that is broken.
func replay(file io.ReaderAt, size int64) (m *Memory, cut bool, err error) {
	section := io.NewSectionReader(file, 0, size)
	_, _, at, err := decodeHeader(section)
	if err != nil {
		return nil, false, err
	}
	if _, err := section.Seek(at, io.SeekStart); err != nil {
		return nil, false, err
	}
	from := bufio.NewReaderSize(section, 64<<10)
	m = &Memory{}
	for {
		r, length, err := decodeRecord(from, at, size)
		if err == nil {
			err = m.apply(r)
		}
		switch {
		case errors.Is(err, io.EOF):
			return m, false, nil
		case err != nil:
			return m, true, nil
		}
		at += length
	}
}

// Send writes an answer as a message of gRPC, and records it like one of discovery's. Its resources come from the file.
func (l *Loaded) Send(to io.Writer, a Answer, s *Session) error {
	rest, size, err := a.message()
	if err != nil {
		return err
	}
	if _, err := to.Write(frame.Head(size)); err != nil {
		return err
	}
	s.Begin(size)
	out := l.out
	out.Reset(&recorder{to, s, a, size})
	_, _ = out.Write(rest) // a bufio.Writer repeats its first error
	for _, p := range a.places {
		_, _ = out.Write(frame.Prefix(2, p.size))
		if _, err := io.Copy(out, io.NewSectionReader(l.file, p.from, int64(p.size))); err != nil {
			return err
		}
	}
	return out.Flush()
}

// recorder records what it passes on, each piece before Envoy has it: an ACK may come as soon as the last one is written.
type recorder struct {
	to      io.Writer
	session *Session
	answer  Answer
	left    int
}

func (r *recorder) Write(data []byte) (int, error) {
	_, _ = r.session.Write(data) // does not fail
	if r.left -= len(data); r.left == 0 {
		r.session.End(r.answer.Type, r.answer.Nonce, r.answer.names(), r.answer.last())
	}
	return r.to.Write(data)
}

// Close closes the file.
func (l *Loaded) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
