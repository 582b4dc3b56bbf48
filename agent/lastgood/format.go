package lastgood

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"
)

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
