package cert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"
)

// Files are the paths of a set that belongs together; "" is none.
type Files struct{ Chain, Key, Roots string }

// Paths are those of the files that there are.
func (f Files) Paths() []string {
	return slices.DeleteFunc([]string{f.Chain, f.Key, f.Roots}, func(path string) bool { return path == "" })
}

func (f Files) path(p Part) string { return [...]string{f.Chain, f.Key, f.Roots}[p] }

// Observation is what all sets are at a time.
type Observation struct {
	Hash    string   // of the files that are there
	Infos   []Info   // one for each set; zero where its chain cannot be read
	Err     error    // what is wrong with files that are there, nil when nothing is
	Missing []string // paths of files that are not there, in order
}

// Loop observes sets of files.
type Loop struct {
	Sets    []Files
	Recheck time.Duration // between two looks without a tick; a certificate expires without one
	Log     *slog.Logger

	read func(path string) ([]byte, error) // ReadFile but in tests
}

// Run looks at once, at each tick and each Recheck, and sends what it sees when that differs from the last. It
// returns the cause of ctx's end.
func (l *Loop) Run(ctx context.Context, ticks <-chan struct{}, out chan<- Observation) error {
	recheck := time.NewTicker(l.Recheck)
	defer recheck.Stop()
	var last *Observation
	for {
		if seen := l.steady(time.Now()); last == nil || !last.equal(seen) {
			select {
			case out <- seen:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			l.report(seen)
			last = &seen
		}
		select {
		case _, open := <-ticks:
			if !open {
				ticks = nil
			}
		case <-recheck.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *Loop) report(o Observation) {
	switch {
	case o.Err != nil:
		l.Log.Warn("certificates cannot be used", "err", o.Err)
	case len(o.Missing) > 0:
		l.Log.Warn("certificates are missing, waiting for them", "paths", o.Missing)
	default:
		l.Log.Info("certificates are valid", "hash", o.Hash)
	}
}

// steady looks again at what seems wrong: files that are swapped between two reads are of different sets.
func (l *Loop) steady(now time.Time) Observation {
	seen := l.look(now)
	if seen.Err != nil {
		return l.look(now)
	}
	return seen
}

func (l *Loop) look(now time.Time) Observation {
	var o Observation
	var faults []error
	contents := map[string][]byte{}
	for _, path := range l.paths() {
		data, err := l.readFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			o.Missing = append(o.Missing, path)
		case err != nil:
			faults = append(faults, fmt.Errorf("read certificates: %w", err)) // which names the path
		default:
			contents[path] = append([]byte{}, data...) // not nil: it is there, if empty
		}
	}
	o.Hash = Hash(contents)
	for _, files := range l.Sets {
		info, err := check(files, contents, now)
		o.Infos = append(o.Infos, info)
		faults = append(faults, err)
	}
	o.Err = errors.Join(faults...)
	return o
}

func (l *Loop) paths() []string {
	var paths []string
	for _, files := range l.Sets {
		paths = append(paths, files.Paths()...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (l *Loop) readFile(path string) ([]byte, error) {
	if l.read != nil {
		return l.read(path)
	}
	return ReadFile(path)
}

// check judges a set that is complete. Of one that is not, it is said elsewhere what is amiss.
func check(files Files, contents map[string][]byte, now time.Time) (Info, error) {
	for _, path := range files.Paths() {
		if contents[path] == nil {
			return Info{}, nil
		}
	}
	info, err := Check(contents[files.Chain], contents[files.Key], contents[files.Roots], now)
	var fault *Fault
	if errors.As(err, &fault) {
		return info, fmt.Errorf("check %s: %w", files.path(fault.Part), err)
	}
	return info, err
}

// equal leaves Infos out: the hash has them.
func (o Observation) equal(other Observation) bool {
	return o.Hash == other.Hash && slices.Equal(o.Missing, other.Missing) && text(o.Err) == text(other.Err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
