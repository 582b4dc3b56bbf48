package safefile

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Faults that a caller may want to distinguish. They are wrapped in an *fs.PathError.
var (
	ErrTooLong = errors.New("is too long")
	ErrChanged = errors.New("changed while it was read")
)

// Read returns the content of a regular file of at most that many bytes. Errors name the file: "read /x: is a pipe, want a file".
// A file that changes while it is read is read three times, since most programs write a file in one moment.
func Read(path string, most int64) (data []byte, err error) {
	for range 3 {
		if data, err = readOnce(path, most); !errors.Is(err, ErrChanged) {
			break
		}
	}
	return data, err
}

func readOnce(path string, most int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := Content(file, most)
	if err != nil {
		return nil, err
	}
	after, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()):
		return nil, refused(path, ErrChanged)
	}
	return data, nil
}

// KeyPair reads a certificate and its key, PEM, of at most that many bytes each.
func KeyPair(certificate, key string, most int64) (tls.Certificate, error) {
	chain, err := Read(certificate, most)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := Read(key, most)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, secret)
}

// Open opens a regular file. It opens no other kind of file, since opening alone has effects: it wakes the writer of a
// pipe, and rewinds a tape.
func Open(path string) (*os.File, error) {
	for range 2 { // the file may be replaced between Stat and open
		info, err := os.Stat(path)
		var at *fs.PathError
		if errors.As(err, &at) {
			at.Op = "open" // as the caller sees it
		}
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, refused(path, fmt.Errorf("is %s, want a file", kindOf(info.Mode())))
		}
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return nil, err
		}
		if opened, err := file.Stat(); err == nil && os.SameFile(info, opened) {
			return file, nil
		}
		_ = file.Close() // nothing was written
	}
	return nil, refused(path, errors.New("is replaced all the time"))
}

// FS is a file system of the regular files below a directory. It has no directories.
type FS string

// Open opens a file by its path below the directory.
func (f FS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	file, err := Open(filepath.Join(string(f), name))
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Content returns the rest of a file that Open opened, at most that many bytes.
func Content(file *os.File, most int64) ([]byte, error) {
	var size int64
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}
	if size > most {
		return nil, refused(file.Name(), fmt.Errorf("%w: it has %s, want at most %s", ErrTooLong, amount(size), amount(most)))
	}
	content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // one read finds the end
	if _, err := content.ReadFrom(io.LimitReader(file, most+1)); err != nil {
		return nil, err
	}
	if int64(content.Len()) > most {
		return nil, refused(file.Name(), fmt.Errorf("%w: it has more than %s", ErrTooLong, amount(most)))
	}
	return content.Bytes(), nil
}

func refused(path string, err error) error { return &fs.PathError{Op: "read", Path: path, Err: err} }

// amount formats a number of bytes.
func amount(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}
