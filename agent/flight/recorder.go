package flight

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cgroup"
)

// keptRecords is enough to compare the last crash with those before.
const keptRecords = 3

// Remains is the data about a process that has ended.
type Remains struct {
	Process   Process // last read
	LastLines []string
	Stats     map[string]int64 // of the last query
	Bootstrap []byte           // with its secrets
}

// Recorder writes a record of each crash and of each newcomer that failed.
type Recorder struct {
	dir    string
	name   string // of dir, for users
	remain func(epoch int) Remains
	log    *slog.Logger
	before cgroup.Memory
	crash  chan crashed // when it is full, a crash is dropped, and logged
}

// crashed is an exit, the history up to it, and the remains of the process. They are copied at once, since the next process may
// have the same epoch number.
type crashed struct {
	end     agent.Event
	history []agent.Event
	remains Remains
}

// NewRecorder returns a Recorder that writes to a directory of its own; name is the path for users. remain returns the
// remains of an epoch's process.
func NewRecorder(dir, name string, remain func(epoch int) Remains, log *slog.Logger) *Recorder {
	return &Recorder{dir: dir, name: name, remain: remain, log: log, crash: make(chan crashed, 1)}
}

// Observe queues the crashes among new events, which are the last ones of history. It does no more, since the
// supervisor's loop calls it.
func (r *Recorder) Observe(history, news []agent.Event) {
	for i, e := range news {
		if e.Note != agent.Failed && e.Note != agent.RolledBack {
			continue
		}
		upTo := max(0, len(history)-len(news)+i+1)
		select {
		case r.crash <- crashed{e, history[:upTo], r.remain(e.Epoch)}:
		default:
			r.log.Warn("no flight record of this end: others are being written", "epoch", e.Epoch)
		}
	}
}

// Run writes records until ctx ends, and then those that were queued before.
func (r *Recorder) Run(ctx context.Context) {
	r.before = r.cgroup()
	for {
		select {
		case c := <-r.crash:
			r.write(c)
		case <-ctx.Done():
			select {
			case c := <-r.crash:
				r.write(c)
			default:
			}
			return
		}
	}
}

func (r *Recorder) write(c crashed) {
	record := Record{
		Time:      c.end.At,
		Cause:     strings.TrimSpace(string(c.end.Note)),
		Epoch:     c.end.Epoch,
		Exit:      c.end.Why,
		Process:   c.remains.Process,
		Before:    r.before,
		After:     r.cgroup(),
		LastLines: c.remains.LastLines,
		Stats:     c.remains.Stats,
		Bootstrap: c.remains.Bootstrap,
	}
	record.OOMKilled = cgroup.OOMKilled(record.Before, record.After)
	r.before = record.After
	for _, e := range c.history {
		record.History = append(record.History, Event{Time: e.At, What: string(e.Note) + " " + e.Why})
	}
	path, err := Write(r.dir, record, keptRecords)
	if err != nil {
		r.log.Warn("flight record not written", "err", err)
	}
	if path != "" {
		r.log.Info("flight record", "path", filepath.Join(r.name, filepath.Base(path)), "epoch", c.end.Epoch, "oom_killed", record.OOMKilled)
	}
}

func (r *Recorder) cgroup() cgroup.Memory {
	c, err := cgroup.ReadMemory(os.DirFS("/"))
	if err != nil {
		r.log.Debug("control group not read", "err", err)
	}
	return c
}
