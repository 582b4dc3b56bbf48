package lastgood

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/frame"
)

const prefix = "last-good-"

// FileName returns the name of a node's file: agents that share a configPath may find each other's directory.
func FileName(node string) string {
	sum := sha256.Sum256([]byte(node))
	return prefix + hex.EncodeToString(sum[:8])
}

// mostKept is how many nodes' files stay in a directory.
const mostKept = 16

// Times of the recording.
const (
	queueLength   = 64          // operations of at most 32 KiB each
	queuePatience = time.Second // for a place in the queue
	firstRetry    = time.Minute // after a failure; doubled with each further one
	lastRetry     = time.Hour
)

// Store records the configuration of the Envoys of one proxy. Nothing but Run waits for the disk.
type Store struct {
	dir, name string                    // the directory, by the path to open and by the path for users
	others    []string                  // where else a file may be
	serves    func(process uint64) bool // it is not held, and not replaced: what it has accepted counts
	log       *slog.Logger
	ops       chan func()

	mu       sync.Mutex
	journals map[uint64]*journal // by Envoy's process
	failures int                 // in a row
	ended    int64               // how often recording has ended so far
	fault    string              // why nothing is recorded; empty while it is
	retryAt  time.Time
	now      func() time.Time

	newest atomic.Int64 // the last contact of the file, in nanoseconds; 0 for none

	telling sync.WaitGroup // what an operation has to tell, which must not take the lock
}

// NewStore returns a store for a directory that only this process writes to; name is its path for users. others are directories in which
// the file may be instead. serves reports whether a process
// of Envoy serves: only then what it has accepted takes the place of what was remembered before.
func NewStore(dir, name string, others []string, serves func(process uint64) bool, log *slog.Logger) *Store {
	return &Store{
		dir: dir, name: name, others: others, serves: serves, log: log, ops: make(chan func(), queueLength), journals: map[uint64]*journal{}, now: time.Now,
	}
}

// Run writes what is recorded until ctx ends, and then what is left in the queue.
func (s *Store) Run(ctx context.Context) {
	s.sweep()
	defer s.closeAll()
	defer s.telling.Wait()
	for {
		select {
		case op := <-s.ops:
			op()
		case <-ctx.Done():
			for {
				select {
				case op := <-s.ops:
					op()
				default:
					return
				}
			}
		}
	}
}

// sweep removes what an agent that was killed has left, and the oldest files if there are too many.
func (s *Store) sweep() {
	var kept []os.FileInfo
	paths, _ := filepath.Glob(filepath.Join(s.dir, prefix+"*"))
	for _, path := range paths {
		if info, err := os.Lstat(path); strings.HasSuffix(path, ".new") {
			_ = os.Remove(path)
		} else if err == nil {
			kept = append(kept, info)
		}
	}
	slices.SortFunc(kept, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range kept[min(len(kept), mostKept):] {
		_ = os.Remove(filepath.Join(s.dir, old.Name()))
	}
}

func (s *Store) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.journals {
		j.close()
	}
	clear(s.journals)
}

var errSlow = errors.New("the disk does not keep up")

// do queues an operation, and reports whether there was a place for it.
func (s *Store) do(op func()) bool {
	select {
	case s.ops <- op:
		return true
	default:
	}
	timer := time.NewTimer(queuePatience)
	defer timer.Stop()
	select {
	case s.ops <- op:
		return true
	case <-timer.C:
		return false
	}
}

// Path is a node's file, for users.
func (s *Store) Path(node string) string { return filepath.Join(s.name, FileName(node)) }

// Session begins to record one stream of a process; a process that came later has a greater number. fresh says that nothing of
// what the process has is recorded. restart is
// called when recording has failed and can be tried again by a new stream: also for a stream that begins in between. The session is nil, or
// waits for that, while nothing is recorded.
func (s *Store) Session(process uint64, header Header, restart func()) (session *Session, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journals[process]
	if j == nil || j.failed || j.header.differs(header) != "" {
		switch wait := s.retryAt.Sub(s.now()); {
		case s.newer(process) || wait > 0 && restart == nil:
			return nil, false
		case wait > 0:
			return &Session{waits: time.AfterFunc(wait, restart)}, false
		}
		for _, old := range s.journals {
			if old == j || old.session == nil && !s.serves(old.process) { // of this process, or of one that has exited
				s.drop(old)
			}
		}
		j, fresh = &journal{store: s, process: process, header: header, progress: newProgress()}, true
		s.journals[process] = j
		s.queue(j, j.create)
	}
	if j.session != nil {
		j.session.abort()
		j.progress.cut()
	}
	session = &Session{journal: j, restart: restart, asked: map[string]bool{}}
	j.session = session
	return session, fresh
}

// newer reports whether a later process serves and has a stream: what an older one has ends with it.
func (s *Store) newer(process uint64) bool {
	for number, j := range s.journals {
		if number > process && j.session != nil && !j.failed && s.serves(number) {
			return true
		}
	}
	return false
}

func (s *Store) drop(j *journal) {
	delete(s.journals, j.process)
	if j.timer != nil {
		j.timer.Stop()
	}
	j.session = nil
	s.do(j.close) // if there is no place, the collector closes the file, and the next start removes its name
}

// queue queues an operation of a journal. The caller holds the lock, so operations have the order of the calls. An operation
// must not take the lock: its caller may be waiting for a place in the queue.
func (s *Store) queue(j *journal, op func() error) {
	if j.failed {
		return
	}
	if !s.do(func() {
		if j.broken {
			return
		}
		if err := op(); err != nil {
			j.broken = true
			s.telling.Go(func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.fail(j, err)
			})
		}
	}) {
		s.fail(j, errSlow)
	}
}

// fail ends the recording of a journal, and says so. What the file held before stays.
func (s *Store) fail(j *journal, err error) {
	if j.failed {
		return
	}
	j.failed = true
	if j.timer != nil {
		j.timer.Stop()
	}
	wait := min(firstRetry<<min(s.failures, 10), lastRetry)
	s.failures++
	s.ended++
	s.fault = err.Error()
	s.retryAt = s.now().Add(wait)
	s.log.Warn("the configuration is not remembered: the last one that was stays", "file", s.Path(j.header.Node), "err", err, "again_in", wait)
	if session := j.session; session != nil && session.restart != nil {
		j.timer = time.AfterFunc(wait, session.restart)
	}
}

// remembered notes that a node's journal has got the name. After a failure it is logged.
func (s *Store) remembered(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures > 0 {
		s.log.Info("the configuration is remembered again", "file", s.Path(node))
	}
	s.failures, s.fault = 0, ""
}

// Newest returns until when the configuration that is remembered was the newest; zero for none.
func (s *Store) Newest() time.Time {
	if at := s.newest.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Recording returns why nothing is recorded now, empty if nothing prevents it, and how often recording has ended so far.
func (s *Store) Recording() (fault string, ended int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault, s.ended
}

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
