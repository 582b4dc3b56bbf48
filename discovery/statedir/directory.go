package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// ending is that of the files.
const ending = ".state"

// maxFiles is how many files are read.
const maxFiles = 1000

// Kept is what a file has of a source.
type Kept struct {
	Groups map[string]model.Group
	At     time.Time // when the source had them
}

// Directory keeps what is served of sources. Load comes before Run; Keep and Forget may be called from any goroutine.
type Directory struct {
	path   string
	of     func(source string) Of
	oldest time.Duration
	log    *slog.Logger
	wake   chan struct{}

	lock *os.File // of this process; nil while another one has it

	mu      sync.Mutex
	pending map[string]pending
	status  status
}

// pending is what is to be written of a source.
type pending struct {
	groups map[string]model.Group
	at     time.Time
	forget bool
}

// New returns the Directory of a path, which need not exist. of returns what the groups of a source depend on; files that are
// older than oldest are not used.
func New(path string, of func(source string) Of, oldest time.Duration, log *slog.Logger) *Directory {
	return &Directory{
		path: path, of: of, oldest: oldest, log: log, wake: make(chan struct{}, 1), pending: map[string]pending{},
		status: status{written: map[string]time.Time{}, unwritten: map[string]string{}},
	}
}

// Load reads the files, at now, and returns what can be used of them, by source. The others are logged and named in Lines.
func (d *Directory) Load(now time.Time) map[string]Kept {
	out := map[string]Kept{}
	err := check(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return out // of the first start
	}
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(d.path)
	}
	if err != nil {
		d.refuse(fmt.Sprintf("directory %v: nothing of it is used", err))
		return out
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ending) })
	if len(entries) > maxFiles {
		d.refuse(fmt.Sprintf("directory %s has %d files, %d are used", d.path, len(entries), maxFiles))
		entries = entries[:maxFiles]
	}
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		h, groups, err := readFile(path)
		switch {
		case err != nil:
		case fileOf(h.Source)+ending != e.Name():
			err = fmt.Errorf("is of source %.200q, want the name %s", h.Source, fileOf(h.Source)+ending)
		default:
			if why := h.refuse(d.of(h.Source), d.oldest, now); why != "" {
				err = errors.New(why)
			}
		}
		if err != nil {
			d.refuse(fmt.Sprintf("%s %v: it is not used", path, err))
			continue
		}
		if h.At.After(now) {
			d.log.Warn("state is of the future, its age is not known", "file", path, "at", h.At)
		}
		out[h.Source] = Kept{groups, h.At}
	}
	return out
}

// refuse records what is not used.
func (d *Directory) refuse(text string) {
	d.log.Error("state not used: " + text)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.unused = append(d.status.unused, text)
}

// Keep replaces what is kept of a source.
func (d *Directory) Keep(source string, groups map[string]model.Group, at time.Time) {
	d.add(source, pending{groups: groups, at: at})
}

// Forget drops what is kept of a source.
func (d *Directory) Forget(source string) { d.add(source, pending{forget: true}) }

func (d *Directory) add(source string, p pending) {
	d.mu.Lock()
	d.pending[source] = p
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Directory) hasPending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending) > 0
}

// take returns what is to be written.
func (d *Directory) take() map[string]pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := maps.Clone(d.pending)
	clear(d.pending)
	return out
}

// readFile reads a file. Its error completes a sentence about the file.
func readFile(path string) (h header, groups map[string]model.Group, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return h, nil, errors.New("is a link, want a file")
	case err != nil:
		return h, nil, fmt.Errorf("cannot be opened: %w", reason(err))
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return h, nil, fmt.Errorf("cannot be read: %w", reason(err))
	case !info.Mode().IsRegular():
		return h, nil, errors.New("is not a file")
	case owner(info) != os.Geteuid():
		return h, nil, fmt.Errorf("belongs to user %d, want %d", owner(info), os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return h, nil, fmt.Errorf("has mode %04o, want 0600", info.Mode().Perm())
	case info.Size() > maxFile:
		return h, nil, errTooLong
	}
	return read(file, maxFile)
}

// check reports why a directory may not be used.
func check(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, reason(err))
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	case owner(info) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, want %d", path, owner(info), os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %04o, want one that lets nobody else write", path, info.Mode().Perm())
	}
	return nil
}

// reason returns an error without the path, which its sentence has.
func reason(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// owner returns the user of a file.
func owner(info fs.FileInfo) int {
	if of, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(of.Uid)
	}
	return -1
}

// status is what the directory tells.
type status struct {
	unused    []string             // a line for each file that is not used
	written   map[string]time.Time // by source: of when what is written is
	unwritten map[string]string    // by source: why its last write failed
	failures  int
}

// wrote records a write, and logs when writes begin to fail, and when they succeed again.
func (d *Directory) wrote(source string, p pending, bytes int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, failed := d.status.unwritten[source]
	switch {
	case err != nil:
		d.status.failures++
		if d.status.unwritten[source] = err.Error(); was != err.Error() {
			d.log.Error("state not written, what was written before stays", "source", source, "err", err, "again", retryAfter)
		}
		return
	case failed:
		delete(d.status.unwritten, source)
		d.log.Info("state is written again", "source", source)
	}
	if p.forget {
		delete(d.status.written, source)
		return
	}
	d.status.written[source] = p.at
	d.log.Debug("state written", "source", source, "groups", len(p.groups), "bytes", bytes)
}

// Lines returns a line for each fault.
func (d *Directory) Lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, text := range d.status.unused {
		out = append(out, "state: "+text)
	}
	for _, source := range slices.Sorted(maps.Keys(d.status.unwritten)) {
		text := fmt.Sprintf("state: source %s is not written", source)
		if at, ok := d.status.written[source]; ok {
			text += " since " + at.UTC().Format(time.RFC3339)
		}
		out = append(out, text+": "+d.status.unwritten[source])
	}
	return out
}

var (
	written = prometheus.NewDesc("pilotlight_state_written_timestamp_seconds", "Of when what is kept of a source on disk is.", []string{"source"}, nil)
	unwrit  = prometheus.NewDesc("pilotlight_state_unwritten_sources", "Sources whose last write to --stateDir failed.", nil, nil)
	failed  = prometheus.NewDesc("pilotlight_state_write_failures_total", "Writes to --stateDir that failed.", nil, nil)
	unused  = prometheus.NewDesc("pilotlight_state_unused_files", "Files of --stateDir that the start did not use: see /ready?verbose.", nil, nil)
)

// Describe sends nothing: the sources may change.
func (d *Directory) Describe(chan<- *prometheus.Desc) {}

// Collect sends what is written, and what is not.
func (d *Directory) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(d.status.written)) {
		out <- prometheus.MustNewConstMetric(written, prometheus.GaugeValue, float64(d.status.written[source].UnixMilli())/1000, source)
	}
	out <- prometheus.MustNewConstMetric(unwrit, prometheus.GaugeValue, float64(len(d.status.unwritten)))
	out <- prometheus.MustNewConstMetric(failed, prometheus.CounterValue, float64(d.status.failures))
	out <- prometheus.MustNewConstMetric(unused, prometheus.GaugeValue, float64(len(d.status.unused)))
}
