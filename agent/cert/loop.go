package cert

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// Files are the paths of a set of files; "" is no file.
type Files struct{ Chain, Key, Roots string }

// Paths returns the paths that are not empty.
func (f Files) Paths() []string {
	return slices.DeleteFunc([]string{f.Chain, f.Key, f.Roots}, func(path string) bool { return path == "" })
}

// needed returns the paths without which the set is of no use.
func (f Files) needed(noRoots bool) []string {
	if noRoots {
		f.Roots = ""
	}
	return f.Paths()
}

func (f Files) path(p Part) string { return [...]string{f.Chain, f.Key, f.Roots}[p] }

// Observation is the state of all sets at a time.
type Observation struct {
	Hash    string   // of the existing files
	Infos   []Info   // one for each set; zero if its chain cannot be read
	Err     error    // faults of existing files, nil for none
	Missing []string // paths of missing files that are needed, in order
}

// Loop observes sets of files.
type Loop struct {
	Sets     []Files
	Optional bool          // none of the files need exist: see Set
	NoRoots  bool          // the roots need not exist: see Set
	Recheck  time.Duration // between two reads without a tick
	Log      *slog.Logger

	read func(path string) ([]byte, error) // ReadFile except in tests
}

// Run reads the files at once, at each tick, each Recheck, and when a certificate begins or ends. It sends the observation if it differs
// from the last one. It returns the cause of ctx's end.
func (l *Loop) Run(ctx context.Context, ticks <-chan struct{}, out chan<- Observation) error {
	recheck := time.NewTimer(l.Recheck)
	defer recheck.Stop()
	var last *Observation
	for {
		seen := l.steady(time.Now())
		if last == nil || !last.equal(seen) {
			select {
			case out <- seen:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			l.report(seen, last)
			last = &seen
		}
		recheck.Reset(Changes(seen.Infos, time.Now(), l.Recheck))
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

// report logs an observation, and the one before it decides how loudly; nil for none.
func (l *Loop) report(o Observation, before *Observation) {
	none := len(l.needed())
	switch {
	case o.Err == nil && l.Optional && len(o.Missing) == none && (before == nil || len(before.Missing) == none):
		l.Log.Info("the workload has no certificates yet", "paths", o.Missing)
	case o.Err != nil:
		l.Log.Warn("certificates cannot be used", "err", o.Err)
	case len(o.Missing) > 0:
		l.Log.Warn("certificates are missing, waiting for them", "paths", o.Missing)
	default:
		l.Log.Info("certificates are valid", "hash", o.Hash)
	}
}

// steady reads again after a fault: files that are swapped between two reads belong to different sets.
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
			if slices.Contains(l.needed(), path) {
				o.Missing = append(o.Missing, path)
			}
		case err != nil:
			faults = append(faults, fmt.Errorf("read certificates: %w", err)) // which names the path
		default:
			contents[path] = append([]byte{}, data...) // not nil: an empty file exists
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

// needed returns the paths without which the others are of no use.
func (l *Loop) needed() (paths []string) {
	for _, files := range l.Sets {
		paths = append(paths, files.needed(l.NoRoots)...)
	}
	return paths
}

func (l *Loop) readFile(path string) ([]byte, error) {
	if l.read != nil {
		return l.read(path)
	}
	return ReadFile(path)
}

// check checks a set that has both chain and key, or none of them. That files are missing is reported elsewhere.
func check(files Files, contents map[string][]byte, now time.Time) (Info, error) {
	if (contents[files.Chain] == nil) != (contents[files.Key] == nil) {
		return Info{}, nil
	}
	info, err := Check(contents[files.Chain], contents[files.Key], contents[files.Roots], now)
	var fault *Fault
	if errors.As(err, &fault) {
		return info, fmt.Errorf("check %s: %w", files.path(fault.Part), err)
	}
	return info, err
}

// Changes returns after how long the same files may be judged in another way, since a certificate begins or ends: at most most.
func Changes(infos []Info, now time.Time, most time.Duration) time.Duration {
	const after = time.Millisecond // a certificate is valid at its last moment
	for _, info := range infos {
		for _, at := range []time.Time{info.NotBefore, info.Ends} {
			if left := at.Sub(now) + after; left > 0 {
				most = min(most, left)
			}
		}
	}
	return most
}

// equal compares two observations without Infos, which the hash covers.
func (o Observation) equal(other Observation) bool {
	return o.Hash == other.Hash && slices.Equal(o.Missing, other.Missing) && text(o.Err) == text(other.Err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Hash returns one hash, in hex, of files by their path. The length of each path and each content is hashed too, so
// that bytes that move from one into the next change the hash.
func Hash(contents map[string][]byte) string {
	h := sha256.New()
	write := func(data []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
	}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		write([]byte(path))
		write(contents[path])
	}
	return hex.EncodeToString(h.Sum(nil))
}
