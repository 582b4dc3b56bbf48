package relay

import (
	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// What a scan keeps, in bytes.
const (
	mostText  = 64 << 10 // of a nonce, a type, a name or a version
	mostNames = 1 << 20  // of all names
)

// scan reads a DeltaDiscoveryResponse in pieces, and keeps its type, its nonce, and its resources' names.
type scan struct {
	typeURL  string
	nonce    string
	names    []string // nil if there are too many
	removals []string // names of removed resources; likewise
	letters  int      // of all names
	last     lastgood.Mark
	resource string // the type of the first resource, which comes before typeURL

	name, version, removed string // of the resource that is read

	at     int64
	ends   []int64 // of the messages that the scan is in
	state  scanState
	number uint64 // the field's
	value  uint64 // of a varint, as far as it is read
	shift  uint
	skip   int64
	keep   *string // takes the field's bytes
	wanted int
	kept   []byte
}

type scanState int

const (
	inTag scanState = iota
	inVarint
	inLength
)

// The places of a scan: how many messages it is in.
const (
	inResponse = iota
	inResource
	inAny
)

func (s *scan) write(data []byte) error {
	for len(data) > 0 {
		n := 1
		switch {
		case s.skip > 0:
			n = int(min(s.skip, int64(len(data))))
			s.skip -= int64(n)
		case s.keep != nil:
			n = min(s.wanted-len(s.kept), len(data))
			s.kept = append(s.kept, data[:n]...)
		default:
			if err := s.varint(data[0]); err != nil {
				return err
			}
		}
		s.at += int64(n)
		data = data[n:]
		if s.keep != nil && len(s.kept) == s.wanted {
			s.store()
		}
		for len(s.ends) > 0 && s.at >= s.ends[len(s.ends)-1] {
			if s.at > s.ends[len(s.ends)-1] || s.between() {
				return frame.ErrMalformed
			}
			s.ends = s.ends[:len(s.ends)-1]
			if len(s.ends) == inResponse {
				s.endResource()
			}
		}
	}
	return nil
}

// between reports whether a field is half-read.
func (s *scan) between() bool {
	return s.skip > 0 || s.keep != nil || s.state != inTag || s.shift > 0
}

// end returns an error if the message is not over.
func (s *scan) end() error {
	if len(s.ends) > 0 || s.between() {
		return frame.ErrMalformed
	}
	return nil
}

func (s *scan) varint(c byte) error {
	if s.shift > 63 {
		return frame.ErrMalformed
	}
	s.value |= uint64(c&0x7f) << s.shift
	s.shift += 7
	if c&0x80 != 0 {
		return nil
	}
	value := s.value
	s.value, s.shift = 0, 0
	switch s.state {
	case inTag:
		s.number = value >> 3
		switch value & 7 {
		case 0:
			s.state = inVarint
		case 1:
			s.skip = 8
		case 2:
			s.state = inLength
		case 5:
			s.skip = 4
		default:
			return frame.ErrMalformed
		}
	case inVarint:
		s.state = inTag
	case inLength:
		s.state = inTag
		if value > 1<<31 {
			return frame.ErrMalformed
		}
		return s.field(int64(value))
	}
	return nil
}

// field begins a field of bytes.
func (s *scan) field(size int64) error {
	var keep *string
	switch depth := len(s.ends); {
	case depth == inResponse && s.number == 2, depth == inResource && s.number == 2 && s.resource == "":
		s.ends = append(s.ends, s.at+1+size) // this byte is not counted yet
		return nil
	case depth == inResponse && s.number == 4:
		keep = &s.typeURL
	case depth == inResponse && s.number == 5:
		keep = &s.nonce
	case depth == inResponse && s.number == 6:
		keep = &s.removed
	case depth == inResource && s.number == 1:
		keep = &s.version
	case depth == inResource && s.number == 3:
		keep = &s.name
	case depth == inAny && s.number == 1:
		keep = &s.resource
	}
	switch {
	case keep != nil && size > mostText:
		return frame.ErrMalformed
	case keep != nil:
		s.keep, s.wanted, s.kept = keep, int(size), s.kept[:0]
	default:
		s.skip = size
	}
	return nil
}

func (s *scan) store() {
	*s.keep = string(s.kept)
	if s.keep == &s.removed {
		s.last = lastgood.Mark{Name: s.removed, Removed: true}
		s.removals = s.add(s.removals, s.removed)
	}
	s.keep = nil
}

func (s *scan) endResource() {
	s.last = lastgood.Mark{Name: s.name, Version: s.version}
	s.names = s.add(s.names, s.name)
	s.name, s.version = "", ""
}

func (s *scan) add(names []string, name string) []string {
	if s.letters += len(name) + 16; s.letters > mostNames {
		return nil
	}
	return append(names, name)
}
