package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/internal/atomicfile"
)

const (
	lockFile  = "lock"
	patience  = 5 * time.Second // for another process that holds the lock
	lockAgain = 10 * time.Millisecond
)

// errHeld is the error for a lock that another process holds too long.
var errHeld = fmt.Errorf("another process has held it for %s", patience)

// locked calls do while it holds the lock of a directory.
func locked(dir string, do func() error) error {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	defer file.Close() // which ends the lock
	for began := time.Now(); ; {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return do()
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		case time.Since(began) > patience:
			return fmt.Errorf("lock %s: %w", file.Name(), errHeld)
		}
		time.Sleep(lockAgain)
	}
}

// write writes a file whole, or leaves the one before.
func write(dir, name string, content []byte, mode os.FileMode) error {
	return atomicfile.Write(filepath.Join(dir, "."+name+".new"), filepath.Join(dir, name), content, mode)
}
