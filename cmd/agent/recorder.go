package main

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/flight"
)

// keptRecords are enough to see whether the last crash was like those before.
const keptRecords = 3

// recorder writes a flight record of each crash and of each newcomer that failed.
type recorder struct {
	dir    string
	remain func(epoch int) envoy.Remains
	log    *slog.Logger
	before cgroup.Memory
	crash  chan crashed // one that comes while another is written is dropped
}

// crashed is the history up to a crash, and what is left of the process: kept at once, for the next one may have its number.
type crashed struct {
	history []agent.Event
	remains envoy.Remains
}

func newRecorder(dir string, remain func(epoch int) envoy.Remains, log *slog.Logger) *recorder {
	return &recorder{dir: dir, remain: remain, log: log, crash: make(chan crashed, 1)}
}

// observe is called from the supervisor's loop: it only notes. news are the last events of history.
func (r *recorder) observe(history, news []agent.Event) {
	before := len(history) - len(news)
	for i, e := range news {
		if e.Note == agent.Failed || e.Note == agent.RolledBack {
			select {
			case r.crash <- crashed{history[:max(0, before+i+1)], r.remain(e.Epoch)}:
			default:
			}
		}
	}
}

// run writes until ctx ends, and what has come until then.
func (r *recorder) run(ctx context.Context) {
	r.before = r.cgroup()
	for {
		select {
		case c := <-r.crash:
			r.write(c.history, c.remains)
		case <-ctx.Done():
			select {
			case c := <-r.crash:
				r.write(c.history, c.remains)
			default:
			}
			return
		}
	}
}

func (r *recorder) write(history []agent.Event, remains envoy.Remains) {
	last := history[len(history)-1]
	record := flight.Record{
		Time:      last.At,
		Cause:     strings.TrimSpace(string(last.Note)),
		Epoch:     last.Epoch,
		Exit:      last.Why,
		Process:   remains.Process,
		Before:    r.before,
		After:     r.cgroup(),
		LastLines: remains.LastLines,
		Stats:     remains.Stats,
		Bootstrap: remains.Bootstrap,
	}
	record.OOMKilled = cgroup.OOMKilled(record.Before, record.After)
	r.before = record.After
	for _, e := range history {
		record.History = append(record.History, flight.Event{Time: e.At, What: string(e.Note) + " " + e.Why})
	}
	path, err := flight.Write(r.dir, record, keptRecords)
	if err != nil {
		r.log.Warn("write flight record", "error", err)
	}
	if path != "" {
		r.log.Info("flight record", "path", path, "epoch", last.Epoch, "oom_killed", record.OOMKilled)
	}
}

func (r *recorder) cgroup() cgroup.Memory {
	c, err := cgroup.ReadMemory(os.DirFS("/"))
	if err != nil {
		r.log.Debug("read control group", "error", err)
	}
	return c
}
