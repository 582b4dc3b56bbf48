package cert

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// longestFile is the most that is read of a file, in bytes: the roots of a whole distribution have 0.3 MB.
const longestFile = 4 << 20

// ReadFile reads a file of certificates. It never waits, and reads a bounded number of bytes: the name may lead to a
// device or a pipe.
func ReadFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: it is no regular file (%s)", path, info.Mode().Type())
	}
	data, err := io.ReadAll(io.LimitReader(file, longestFile+1))
	if err == nil && len(data) > longestFile {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w, at most %d bytes are read", path, err, longestFile)
	}
	return data, nil
}
