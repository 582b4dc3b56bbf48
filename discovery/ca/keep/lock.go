package keep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile  = "lock"
	patience  = 5 * time.Second // for another process that holds the lock
	lockAgain = 10 * time.Millisecond
)

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
			return fmt.Errorf("lock %s: another process has held it for %s", file.Name(), patience)
		}
		time.Sleep(lockAgain)
	}
}

// write writes a file whole, or leaves the one before.
func write(dir, name string, content []byte, mode os.FileMode) error {
	at := filepath.Join(dir, name)
	temporary := filepath.Join(dir, "."+name+".new")
	if err := fill(temporary, content, mode); err != nil {
		_ = os.Remove(temporary) // the reason is in err
		return fmt.Errorf("write %s: %w", at, err)
	}
	if err := os.Rename(temporary, at); err != nil {
		return fmt.Errorf("write %s: %w", at, err)
	}
	return settle(dir)
}

func fill(path string, content []byte, mode os.FileMode) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a process that was killed
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

// settle makes the names in a directory outlive a crash.
func settle(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
