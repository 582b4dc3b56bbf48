package lastgood

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/internal/atomicfile"
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
	most     time.Duration
	latest   time.Time // when it is whole at the latest, by most
	timer    *time.Timer
	free     atomic.Bool // no file that has the name fits this header: taking it loses nothing

	// Of the operations.
	file   *os.File
	named  bool
	broken bool
	size   int64
	start  int64     // of the record that is being written
	last   time.Time // contact with discovery
	sum    uint32
}

func (j *journal) path() string { return filepath.Join(j.store.dir, FileName(j.header.Node)) }

// temporary returns the one of two names that the file does not have.
func (j *journal) temporary() string {
	name := fmt.Sprintf("%s-%d.new", j.path(), j.process)
	if j.file != nil && j.file.Name() == name {
		name = fmt.Sprintf("%s-%d-again.new", j.path(), j.process)
	}
	return name
}

func (j *journal) create() (err error) {
	if j.store.newest.Load() == 0 {
		j.store.newest.Store(contactOf(j.path(), j.header))
	}
	j.free.Store(!slices.ContainsFunc(append([]string{j.store.dir}, j.store.others...), func(dir string) bool {
		return contactOf(filepath.Join(dir, FileName(j.header.Node)), j.header) != 0
	}))
	if j.file, err = atomicfile.Create(j.temporary(), 0o600); err != nil {
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
	if j.named {
		switch err := j.stillNamed(); {
		case errors.Is(err, fs.ErrNotExist):
			if err := j.again(); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		j.store.newest.Store(at.UnixNano())
	}
	_, err := j.file.WriteAt(encodeContact(at), int64(contactAt))
	return err
}

// stillNamed returns an error if its name has been removed, or is another file's: what is written then is lost.
func (j *journal) stillNamed() error {
	written, err1 := j.file.Stat()
	named, err2 := os.Lstat(j.path())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !os.SameFile(written, named) {
		return errors.New("another file has taken its name")
	}
	return nil
}

// again writes the journal to a new file whose name was removed, as with the whole directory.
func (j *journal) again() error {
	file, err := atomicfile.Create(j.temporary(), 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(j.file, 0, j.size))
	if err == nil {
		err = atomicfile.Take(file, j.path())
	}
	if err != nil {
		return errors.Join(err, atomicfile.Drop(file))
	}
	_ = j.file.Close()
	j.file = file
	return nil
}

// take gives the journal the name of the one before.
func (j *journal) take() error {
	j.named = true
	err := atomicfile.Take(j.file, j.path())
	if j.named = err == nil; j.named {
		j.store.newest.Store(j.last.UnixNano())
	}
	return err
}

// rewrite writes the live resources to a new file, which takes the name, and behind them the responses that Envoy may still accept.
func (j *journal) rewrite(unanswered map[uint64]bool) error {
	memory, _, err := replay(j.file, j.size)
	if err != nil {
		return err
	}
	file, err := atomicfile.Create(j.temporary(), 0o600)
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
	for _, number := range slices.Sorted(maps.Keys(unanswered)) {
		w, held := memory.waiting[number]
		data := make([]byte, w.size)
		if err == nil && held {
			_, err = j.file.ReadAt(data, w.from)
		}
		if err == nil && held {
			err = anew.response(number, data)
		}
	}
	switch {
	case err != nil:
	case j.named:
		err = atomicfile.Take(file, j.path())
	default:
		err = os.Remove(j.file.Name())
	}
	if err != nil {
		return errors.Join(err, atomicfile.Drop(file))
	}
	_ = j.file.Close()
	j.file, j.size = file, anew.size
	j.held.Store(j.size)
	return nil
}

// put writes a resource with its ACK; without data, that the type has none.
func (j *journal) put(typeURL string, data []byte) error {
	if err := j.response(0, frame.Append(frame.Append(nil, 2, data), 4, []byte(typeURL))); err != nil {
		return err
	}
	return j.accept(0, nil)
}

// response writes a whole response.
func (j *journal) response(number uint64, message []byte) error {
	if err := j.begin(number, len(message)); err != nil {
		return err
	}
	if err := j.chunk(message); err != nil {
		return err
	}
	return j.end()
}

// close closes the file, and removes it if it is not the one that counts.
func (j *journal) close() {
	j.broken = true
	if j.file == nil {
		return
	}
	_ = j.file.Close()
	if !j.named {
		_ = os.Remove(j.file.Name())
	}
	j.file = nil
}

// The format of the file:
//
//	magic │ last contact, 8 bytes │ size, 4 bytes │ Header as JSON │ CRC of size and header
//	kind │ size, 4 bytes │ payload │ CRC of all three                                          and so on
//
// Numbers are big-endian, a CRC has 4 bytes. The contact is written in place, so no CRC covers it.
const (
	magic = "pilotlight last good 1\n"

	contactAt  = len(magic)
	headerAt   = contactAt + 8
	mostHeader = 64 << 10
	recordHead = 5
	recordTail = 4

	// MostMessage is the greatest size of a response that is remembered, in bytes.
	MostMessage = 32 << 20
	mostFile    = 256 << 20
)

// The kinds of records.
const (
	kindResponse = 'R' // number, 8 bytes; the message
	kindAccepted = 'A' // the response's number, 8 bytes; the names that Envoy has refused, each after a NUL
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Header is that by which a file fits to a proxy.
type Header struct {
	Node      string `json:"node"`
	Discovery string `json:"discovery"` // host:port
	Bootstrap string `json:"bootstrap"` // its hash, without the certificate
	Envoy     []byte `json:"envoy"`     // the version that it gives of itself

	// Certificate is whether Envoy had a certificate of the mesh when it started. It decides only between files: a certificate that is
	// broken now must not cost the configuration.
	Certificate bool `json:"certificate,omitempty"`
}

// differs returns the first thing in which a file's header does not fit, empty if there is none.
func (h Header) differs(want Header) string {
	for _, part := range []struct{ what, is, want string }{
		{"node", h.Node, want.Node},
		{"discovery", h.Discovery, want.Discovery},
		{"bootstrap", h.Bootstrap, want.Bootstrap},
		{"version of Envoy", fmt.Sprintf("%x", h.Envoy), fmt.Sprintf("%x", want.Envoy)},
	} {
		if part.is != part.want {
			return fmt.Sprintf("it is of another %s: %q, want %q", part.what, part.is, part.want)
		}
	}
	return ""
}

func (h Header) encode(contact time.Time) []byte {
	text, _ := json.Marshal(h) // strings and bytes
	out := append([]byte(magic), encodeContact(contact)...)
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	return binary.BigEndian.AppendUint32(append(out, sized...), crc32.Checksum(sized, table))
}

func encodeContact(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano()))
}

var errFormat = errors.New("it is no file of the last good configuration, or of another format")

// decodeHeader reads the beginning of a file.
func decodeHeader(from io.Reader) (h Header, contact time.Time, size int64, err error) {
	head := make([]byte, headerAt+4)
	if _, err := io.ReadFull(from, head); err != nil || !strings.HasPrefix(string(head), magic) {
		return h, contact, 0, errFormat
	}
	contact = time.Unix(0, int64(binary.BigEndian.Uint64(head[contactAt:])))
	length := binary.BigEndian.Uint32(head[headerAt:])
	if length > mostHeader {
		return h, contact, 0, errFormat
	}
	rest := make([]byte, length+recordTail)
	if _, err := io.ReadFull(from, rest); err != nil {
		return h, contact, 0, errors.New("its header is half-written")
	}
	text, sum := rest[:length], binary.BigEndian.Uint32(rest[length:])
	if crc32.Update(crc32.Checksum(head[headerAt:], table), table, text) != sum {
		return h, contact, 0, errors.New("the checksum of its header is wrong")
	}
	return h, contact, int64(len(head) + len(rest)), json.Unmarshal(text, &h)
}

// record is a record of a file.
type record struct {
	kind    byte
	number  uint64
	from    int64  // place of the message in the file
	message []byte // of a response
	refused []string
}

// errEnd is the error for a record that is half-written or broken: the file ends before it.
var errEnd = errors.New("half-written")

// decodeRecord reads the record that begins at a place in a file of that size. At the end of the file the error is io.EOF.
func decodeRecord(from *bufio.Reader, at, end int64) (r record, size int64, err error) {
	head := make([]byte, recordHead, recordHead+8)
	if _, err := io.ReadFull(from, head); err != nil {
		if errors.Is(err, io.EOF) {
			return r, 0, io.EOF
		}
		return r, 0, errEnd
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 8 || length > MostMessage+8 || int64(length) > end-at-recordHead-recordTail {
		return r, 0, errEnd // a size that the file does not have must not cost its memory
	}
	rest := make([]byte, length+recordTail)
	if _, err := io.ReadFull(from, rest); err != nil {
		return r, 0, errEnd
	}
	payload, sum := rest[:length:length], binary.BigEndian.Uint32(rest[length:])
	if crc32.Update(crc32.Checksum(head, table), table, payload) != sum {
		return r, 0, errEnd
	}
	r = record{kind: head[0], number: binary.BigEndian.Uint64(payload), from: at + recordHead + 8}
	switch r.kind {
	case kindResponse:
		r.message = payload[8:]
	case kindAccepted:
		if text := string(payload[8:]); text != "" {
			r.refused = strings.Split(text[1:], "\x00")
		}
	default:
		return r, 0, errEnd
	}
	return r, recordHead + int64(len(rest)), nil
}

// encodeHead returns the head of a record, and the running checksum.
func encodeHead(kind byte, number uint64, size int) (head []byte, sum uint32) {
	head = binary.BigEndian.AppendUint32([]byte{kind}, uint32(size+8))
	head = binary.BigEndian.AppendUint64(head, number)
	return head, crc32.Checksum(head, table)
}

// encodeAccepted returns a whole record.
func encodeAccepted(number uint64, refused []string) []byte {
	text := ""
	for _, name := range refused {
		text += "\x00" + name
	}
	head, sum := encodeHead(kindAccepted, number, len(text))
	return append(append(head, text...), encodeSum(sum, []byte(text))...)
}

// encodeSum returns the end of a record, by the running checksum and what follows.
func encodeSum(sum uint32, rest []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Update(sum, table, rest))
}
