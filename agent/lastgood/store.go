package lastgood

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
