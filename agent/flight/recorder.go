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

// keptRecords are enough to see whether the last crash was like those before.
const keptRecords = 3

// Remains are what is known of a process that has ended.
type Remains struct {
	Process   Process // last seen
	LastLines []string
	Stats     map[string]int64 // last asked
	Bootstrap []byte           // with its secrets
}

// Recorder writes a record of each crash and of each newcomer that failed.
type Recorder struct {
	dir    string
	name   string // of dir, for people
	remain func(epoch int) Remains
	log    *slog.Logger
	before cgroup.Memory
	crash  chan crashed // what does not fit in is dropped, and logged
}

// crashed is an exit, the history up to it, and the remains of the process. They are copied at once, since the next process may
// have the same epoch number.
type crashed struct {
	end     agent.Event
	history []agent.Event
	remains Remains
}

// NewRecorder returns one that writes to a directory of its own; name is where a user finds it. remain returns what is left of an epoch's process.
func NewRecorder(dir, name string, remain func(epoch int) Remains, log *slog.Logger) *Recorder {
	return &Recorder{dir: dir, name: name, remain: remain, log: log, crash: make(chan crashed, 1)}
}

// Observe takes new events, the last ones of history. It only takes note, for it is called from the supervisor's loop.
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
		r.log.Warn("write flight record", "err", err)
	}
	if path != "" {
		r.log.Info("flight record", "path", filepath.Join(r.name, filepath.Base(path)), "epoch", c.end.Epoch, "oom_killed", record.OOMKilled)
	}
}

func (r *Recorder) cgroup() cgroup.Memory {
	c, err := cgroup.ReadMemory(os.DirFS("/"))
	if err != nil {
		r.log.Debug("read control group", "err", err)
	}
	return c
}
