package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/internal/atomicfile"
)

// Writes take at most a fiftieth of the time, as long as that means a pause of at most longestPause: a crash loses what came in it. One that failed
// is tried again after retryAfter.
const (
	share        = 50
	longestPause = time.Minute
	retryAfter   = 10 * time.Second
)

// pauseAfter returns how long there is no write after one.
func pauseAfter(took time.Duration) time.Duration { return min(share*took, longestPause) }

// errLocked says that another process has the lock.
var errLocked = errors.New("another discovery has the lock of the directory")

// Run writes what is kept until ended is closed, and what is left after that.
func (d *Directory) Run(ended <-chan struct{}) error {
	defer d.unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	wake := d.wake
	for {
		select {
		case <-ended:
			d.write()
			return nil
		case <-timer.C:
			if wake = d.wake; !d.hasPending() {
				continue
			}
		case <-wake:
		}
		began, again := time.Now(), retryAfter
		if !d.write() {
			again = pauseAfter(time.Since(began))
		}
		wake = nil
		timer.Reset(again)
	}
}

// write writes what is to be written, and reports whether some of it failed. That is tried again.
func (d *Directory) write() (failed bool) {
	all := d.take()
	for _, source := range slices.Sorted(maps.Keys(all)) {
		p := all[source]
		written, err := d.writeOne(source, p)
		if d.wrote(source, p, written, err); err == nil {
			continue
		}
		failed = true
		d.mu.Lock()
		if _, newer := d.pending[source]; !newer {
			d.pending[source] = p
		}
		d.mu.Unlock()
	}
	return failed
}

func (d *Directory) writeOne(source string, p pending) (written int64, err error) {
	if err := d.own(); err != nil {
		return 0, err
	}
	to := filepath.Join(d.path, fileOf(source))
	if p.forget {
		if err := os.Remove(to + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		return 0, nil
	}
	file, err := atomicfile.Create(to+".tmp", 0o600)
	if err != nil {
		return 0, err
	}
	buffer := bufio.NewWriterSize(file, 64<<10)
	written, err = write(buffer, header{Source: source, Of: d.of(source), At: p.at}, p.groups, maxFile)
	if err == nil {
		err = buffer.Flush()
	}
	if err == nil {
		err = atomicfile.Take(file, to+ending)
	}
	if err != nil {
		return written, errors.Join(err, atomicfile.Drop(file))
	}
	return written, file.Close()
}

// own makes the directory, and takes its lock. The lock counts as long as its file is there.
func (d *Directory) own() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	if err := check(d.path); err != nil {
		return err
	}
	path := filepath.Join(d.path, "lock")
	if d.lock != nil {
		mine, err := d.lock.Stat()
		there, gone := os.Lstat(path)
		if err == nil && gone == nil && os.SameFile(mine, there) {
			return nil
		}
		d.unlock()
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%s: %w", d.path, errLocked)
		}
		return fmt.Errorf("lock %s: %w", path, err)
	}
	d.lock = file
	return nil
}

func (d *Directory) unlock() {
	if d.lock != nil {
		_ = d.lock.Close() // which unlocks
		d.lock = nil
	}
}
