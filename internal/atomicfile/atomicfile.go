package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Create makes a new file at a temporary path, for reading and writing, in place of one that was left there. It follows no link.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(mode); err != nil { // whatever the umask is
		return nil, errors.Join(err, Drop(file))
	}
	return file, nil
}

// Take gives a file that Create made, and that stays open, its name. After an error the file before it stays, unless
// only the directory could not be synced.
func Take(file *os.File, name string) error {
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return err
	}
	return Sync(filepath.Dir(name))
}

// Drop closes a file that Create made and that will not be taken, and removes what has its temporary name.
func Drop(file *os.File) error {
	err := os.Remove(file.Name())
	if errors.Is(err, fs.ErrNotExist) { // its directory could not be synced
		err = nil
	}
	return errors.Join(file.Close(), err)
}

// Write makes a file of this content, or leaves the one before; temporary is its path until then. An error names the file.
func Write(temporary, name string, content []byte, mode fs.FileMode) error {
	file, err := Create(temporary, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err = file.Write(content); err == nil {
		err = Take(file, name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, Drop(file)))
	}
	return file.Close()
}

// Sync has what a file or a directory holds outlive a crash of the machine.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems cannot
		return err
	}
	return nil
}
