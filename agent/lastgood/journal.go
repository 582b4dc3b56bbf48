package lastgood

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// journal is the file of one process of Envoy. Until it is whole it has a name of its own.
type journal struct {
	store   *Store
	process uint64
	header  Header

	// Guarded by the store.
	progress *progress
	session  *Session
	numbers  uint64
	whole    bool         // it has the name
	failed   bool         // nothing more is queued
	grown    int64        // bytes since it was written anew
	held     atomic.Int64 // bytes that it had then
	timer    *time.Timer

	// Of the operations.
	file   *os.File
	named  bool
	broken bool
	size   int64
	start  int64     // of the record that is being written
	last   time.Time // contact with discovery
	sum    uint32
}

func (j *journal) path() string {
	if j.named {
		return filepath.Join(j.store.dir, FileName)
	}
	return filepath.Join(j.store.dir, fmt.Sprintf("%s-%d.new", FileName, j.process))
}

func (j *journal) create() (err error) {
	if j.file, err = createNew(j.path()); err != nil {
		return err
	}
	j.last = j.store.now()
	return j.write(j.header.encode(j.last))
}

// createNew creates a file that only its owner may open, instead of one that is left over.
func createNew(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
}

func (j *journal) write(data []byte) error {
	if j.size+int64(len(data)) > mostFile {
		return fmt.Errorf("it would have more than %d bytes", mostFile)
	}
	n, err := j.file.WriteAt(data, j.size)
	j.size += int64(n)
	return err
}

// begin begins the record of a response.
func (j *journal) begin(number uint64, size int) error {
	head, sum := encodeHead(kindResponse, number, size)
	j.start, j.sum = j.size, sum
	return j.write(head)
}

func (j *journal) chunk(data []byte) error {
	j.sum = crc32.Update(j.sum, table, data)
	return j.write(data)
}

func (j *journal) end() error { return j.write(encodeSum(j.sum, nil)) }

// cut removes a record that is half-written.
func (j *journal) cut() error {
	j.size = j.start
	return j.file.Truncate(j.size)
}

func (j *journal) accept(number uint64, refused []string) error {
	return j.write(encodeAccepted(number, refused))
}

func (j *journal) contact(at time.Time) error {
	j.last = at
	_, err := j.file.WriteAt(encodeContact(at), int64(contactAt))
	return err
}

// take gives the journal the name of the one before.
func (j *journal) take() error {
	if err := j.file.Sync(); err != nil {
		return err
	}
	from := j.path()
	j.named = true
	if err := os.Rename(from, j.path()); err != nil {
		j.named = false
		return err
	}
	return syncDir(j.store.dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems cannot
		return err
	}
	return nil
}

// rewrite writes the live resources to a new file, which takes the name.
func (j *journal) rewrite() error {
	memory, _, err := replay(j.file, j.size)
	if err != nil {
		return err
	}
	path := filepath.Join(j.store.dir, fmt.Sprintf("%s-%d-again.new", FileName, j.process))
	file, err := createNew(path)
	if err != nil {
		return err
	}
	anew := &journal{store: j.store, file: file}
	err = anew.write(j.header.encode(j.last))
	for typeURL, held := range memory.types {
		if err == nil && len(held) == 0 {
			err = anew.put(typeURL, nil)
		}
		for _, p := range held {
			data := make([]byte, p.size)
			if err == nil {
				_, err = j.file.ReadAt(data, p.from)
			}
			if err == nil {
				err = anew.put(typeURL, data)
			}
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(path, j.path())
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(path))
	}
	_ = j.file.Close() // it has no name any more
	j.file, j.size = file, anew.size
	j.held.Store(j.size)
	return nil
}

// close closes the file, and removes it if it is not the one that counts.
func (j *journal) close() {
	j.broken = true
	if j.file == nil {
		return
	}
	_ = j.file.Close()
	if !j.named {
		_ = os.Remove(j.path())
	}
	j.file = nil
}
