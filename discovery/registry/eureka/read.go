package eureka

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	mostField     = 256 << 10 // bytes of a field of an instance
	mostText      = 16 << 10  // bytes of another text
	mostInstances = 100_000   // of an answer
	mostNames     = 64        // of a vipAddress
)

// reading reads an answer field by field and instance by instance.
type reading struct {
	*pieces
	fields [][]byte // of the present instance, in the order of fields
	record []byte   // the present instance, of these fields
	out    applications
}

// readAnswer reads an answer of /apps or /apps/delta; nil for one without applications.
func readAnswer(in io.Reader) (out *applications, err error) {
	r := newReading(in)
	err = r.object(func(name string) error {
		if strings.EqualFold(name, "applications") && !r.null() {
			out = &r.out
			return r.applications()
		}
		return r.skip()
	})
	return out, err
}

func newReading(in io.Reader) *reading {
	return &reading{pieces: newPieces(in), fields: make([][]byte, len(fields))}
}

func (r *reading) skip() error {
	_, _, err := r.value(0)
	return err
}

// null returns whether the next value is null. Anything else that begins like it is an error of the next read.
func (r *reading) null() bool {
	c, err := r.peek()
	return err == nil && c == 'n'
}

func (r *reading) applications() error {
	return r.object(func(name string) error {
		switch {
		case strings.EqualFold(name, "apps__hashcode"):
			return r.text(name, &r.out.hash)
		case strings.EqualFold(name, "application"):
			return r.many(name, r.application)
		}
		return r.skip()
	})
}

func (r *reading) application() error {
	if r.null() {
		return r.skip()
	}
	var app text
	first := len(r.out.changes)
	err := r.object(func(name string) error {
		switch {
		case strings.EqualFold(name, "name"):
			return r.text(name, &app)
		case strings.EqualFold(name, "instance"):
			return r.many(name, r.instance)
		}
		return r.skip()
	})
	of := strings.ToUpper(string(app))
	for i := first; i < len(r.out.changes); i++ {
		r.out.changes[i].app = of // its name may follow its instances
	}
	return err
}

// many reads a list; some encoders write a list of one element without brackets.
func (r *reading) many(name string, each func() error) error {
	c, err := r.peek()
	if err != nil {
		return err
	}
	switch c {
	case '[':
		return r.list(each)
	case '{':
		return each()
	case 'n':
		return r.skip()
	}
	found, _, err := r.value(mostText)
	if err != nil {
		return err
	}
	return fmt.Errorf("cannot unmarshal %.40q as %s, want a list", found, name)
}

func (r *reading) text(name string, to *text) error {
	raw, fits, err := r.value(mostText)
	switch {
	case err != nil:
		return err
	case !fits:
		return fmt.Errorf("%s is longer than %d KiB", name, mostText>>10)
	}
	return json.Unmarshal(raw, to)
}

// instance reads an instance. A malformed one, or one with a long field, does not affect the others.
func (r *reading) instance() error {
	if len(r.out.changes) == mostInstances {
		return fmt.Errorf("the answer has more than %d instances", mostInstances)
	}
	var c change
	var syntax *json.SyntaxError
	long, err := r.split()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.record, &c.instance); errors.As(err, &syntax) {
		return err
	} else if err != nil {
		c.fault = err.Error()
	}
	if long != "" {
		c.fault = fmt.Sprintf("%s is longer than %d KiB", long, mostField>>10)
	}
	if c.fault != "" {
		var h head
		_ = json.Unmarshal(r.record, &h) // fills the fields that can be read
		c.instance = instance{head: h}
	}
	id := c.instance.ID
	if id == "" {
		id = c.instance.Host
	}
	if id == "" && c.fault == "" {
		c.fault = "it has neither an instanceId nor a hostName"
	}
	c.id = string(id)
	c.status, c.deleted = strings.ToUpper(string(c.instance.Status)), c.instance.Action == "DELETED"
	c.instance.bound()
	r.out.changes = append(r.out.changes, c)
	return nil
}

// split makes the record of the next instance, of its fields that are read and that fit, and returns one that does not.
func (r *reading) split() (long string, err error) {
	if c, err := r.peek(); err != nil || c != '{' {
		if err != nil {
			return "", err
		}
		raw, _, err := r.value(mostText)
		r.record = append(r.record[:0], raw...)
		return "", err
	}
	for i := range r.fields {
		r.fields[i] = r.fields[i][:0]
	}
	err = r.object(func(name string) error {
		at := slices.IndexFunc(fields, func(f string) bool { return strings.EqualFold(f, name) })
		if at < 0 {
			return r.skip()
		}
		raw, fits, err := r.value(mostField)
		if !fits && err == nil {
			long = fields[at]
		}
		r.fields[at] = append(r.fields[at][:0], raw...)
		return err
	})
	r.record = append(r.record[:0], '{')
	for i, raw := range r.fields {
		if len(raw) > 0 {
			if len(r.record) > 1 {
				r.record = append(r.record, ',')
			}
			r.record = append(append(append(r.record, '"'), fields[i]...), `":`...)
			r.record = append(r.record, raw...)
		}
	}
	r.record = append(r.record, '}')
	return long, err
}

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
