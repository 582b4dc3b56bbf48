package lastgood

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/internal/durable"
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
	if j.file, err = durable.Create(j.path(), 0o600); err != nil {
		return err
	}
	j.last = j.store.now()
	return j.write(j.header.encode(j.last))
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
	j.named = true
	err := durable.Take(j.file, j.path())
	j.named = err == nil
	return err
}

// rewrite writes the live resources to a new file, which takes the name.
func (j *journal) rewrite() error {
	memory, _, err := replay(j.file, j.size)
	if err != nil {
		return err
	}
	path := filepath.Join(j.store.dir, fmt.Sprintf("%s-%d-again.new", FileName, j.process))
	file, err := durable.Create(path, 0o600)
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
		err = durable.Take(file, j.path())
	}
	if err != nil {
		return errors.Join(err, durable.Drop(file))
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
