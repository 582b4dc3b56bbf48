package eureka

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// pieces reads a JSON text value by value. A value that does not fit its bound is skipped without being held, so that
// the memory depends on what is kept, not on what is sent. (encoding/json's Decoder holds each value that it passes.)
type pieces struct {
	in     *bufio.Reader
	buffer []byte // of the value that was read last
}

func newPieces(in io.Reader) *pieces { return &pieces{in: bufio.NewReaderSize(in, 64<<10)} }

// mostFieldName is how many bytes the name of a field may have, in quotes. A longer one is none that is read here.
const mostFieldName = 64

// peek returns the next byte that is no space, and leaves it.
func (p *pieces) peek() (byte, error) {
	for {
		c, err := p.in.ReadByte()
		if err == io.EOF {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, p.in.UnreadByte()
		}
	}
}

// take reads the next byte, which must be want.
func (p *pieces) take(want byte) error {
	c, err := p.peek()
	if err != nil {
		return err
	}
	if c != want {
		return fmt.Errorf("invalid character %q, want %q", c, want)
	}
	_, err = p.in.ReadByte()
	return err
}

// value reads the next value. It is valid until the next call, and is checked only by its brackets and quotes. One that
// does not fit is read to its end, and is nil.
func (p *pieces) value(most int) (raw []byte, fits bool, err error) {
	first, err := p.peek()
	if err != nil {
		return nil, false, err
	}
	if !strings.ContainsRune(`{["-0123456789tfn`, rune(first)) {
		return nil, false, fmt.Errorf("invalid character %q looking for beginning of value", first)
	}
	bare := !strings.ContainsRune(`{["`, rune(first)) // its end is seen by what follows
	p.buffer, fits = p.buffer[:0], true
	depth, quoted, escaped := 0, false, false
	for {
		c, err := p.in.ReadByte()
		if err == io.EOF {
			return nil, false, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, false, err
		}
		if bare && strings.ContainsRune(",]} \t\r\n", rune(c)) {
			return p.kept(fits), fits, p.in.UnreadByte()
		}
		if fits = fits && len(p.buffer) < most; fits {
			p.buffer = append(p.buffer, c)
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if !bare && depth == 0 && !quoted {
			return p.kept(fits), fits, nil
		}
	}
}

func (p *pieces) kept(fits bool) []byte {
	if !fits {
		return nil
	}
	return p.buffer
}

// list reads a list. Each reads one element.
func (p *pieces) list(each func() error) error {
	if err := p.take('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := p.more(']', first); err != nil || !more {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// object reads an object. Each reads the value of one field; a name that is too long to be of use is "".
func (p *pieces) object(each func(name string) error) error {
	if err := p.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := p.more('}', first); err != nil || !more {
			return err
		}
		name, err := p.name()
		if err != nil {
			return err
		}
		if err := p.take(':'); err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
	}
}

// more reads what separates two elements, or the end.
func (p *pieces) more(end byte, first bool) (bool, error) {
	c, err := p.peek()
	switch {
	case err != nil:
		return false, err
	case c == end:
		return false, p.take(end)
	case first:
		return true, nil
	}
	return true, p.take(',')
}

// name reads the name of a field.
func (p *pieces) name() (name string, err error) {
	c, err := p.peek()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", fmt.Errorf("invalid character %q looking for the name of a field", c)
	}
	raw, fits, err := p.value(mostFieldName)
	if err != nil || !fits {
		return "", err
	}
	err = json.Unmarshal(raw, &name)
	return name, err
}
