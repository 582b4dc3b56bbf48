package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// Write writes a record into dir, which it makes, and returns its path. It keeps the newest records, as many as keep,
// and never leaves half a record. If it has written the record but cannot remove older ones, it returns both a path and
// an error.
func Write(dir string, r Record, keep int) (path string, err error) {
	data, err := json.MarshalIndent(r.bounded(), "", indent)
	if err != nil {
		return "", fmt.Errorf("write flight record: %w", err)
	}
	name := fmt.Sprintf("%s-epoch%d.json", r.Time.UTC().Format("20060102T150405.000000000Z"), r.Epoch)
	path = filepath.Join(dir, name)
	if err := place(path, append(data, '\n')); err != nil {
		return "", fmt.Errorf("write flight record: %w", err)
	}
	if err := removeOldest(dir, keep); err != nil {
		return path, fmt.Errorf("remove old flight records: %w", err)
	}
	return path, nil
}

const unfinished = ".unfinished-*"

// place writes a temporary file in the same directory and renames it.
func place(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, unfinished) // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// removeOldest removes the oldest records by their names, which begin with a time. It touches no other file.
func removeOldest(dir string, keep int) error {
	records, err := filepath.Glob(filepath.Join(dir, "*Z-epoch*.json"))
	if err != nil {
		return err
	}
	leftover, err := filepath.Glob(filepath.Join(dir, unfinished))
	if err != nil {
		return err
	}
	slices.Sort(records)
	var errs []error
	for _, path := range append(leftover, records[:max(0, len(records)-keep)]...) {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// Process holds the data of /proc about a process.
type Process struct {
	Pid     int    `json:"pid,omitempty"`
	State   string `json:"state,omitempty"` // "S (sleeping)"
	Threads int64  `json:"threads,omitempty"`
	RSS     int64  `json:"rss_bytes,omitempty"`
	PeakRSS int64  `json:"peak_rss_bytes,omitempty"`
}

// ReadProcess reads proc/PID/status below a root.
func ReadProcess(root fs.FS, pid int) (Process, error) {
	data, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/status", pid))
	if err != nil {
		return Process{}, fmt.Errorf("read process: %w", err)
	}
	p := Process{Pid: pid}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			p.State = value
		case "Threads":
			p.Threads = number(value)
		case "VmRSS":
			p.RSS = number(strings.TrimSuffix(value, " kB")) << 10
		case "VmHWM":
			p.PeakRSS = number(strings.TrimSuffix(value, " kB")) << 10
		}
	}
	return p, nil
}

// number parses a number; it returns 0 for a text that is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
