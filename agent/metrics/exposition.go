package metrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// exposition joins the texts of several sources into one valid text. A scraper refuses a whole text for one bad line,
// so a line that is not valid, or was cut short, is dropped: one source never makes the text of the others invalid. A
// family's second TYPE or HELP is dropped, from any source.
type exposition struct {
	to        *bufio.Writer
	lines     *bufio.Reader
	seed      maphash.Seed
	istio     *istio              // gives Istio's names while Envoy's text is copied; nil for none
	described map[uint64]struct{} // families whose TYPE or HELP must not follow any more
}

const (
	longestMetric = 64 << 10 // bytes of a line
	keptFamilies  = 20_000   // beyond these, second TYPEs are not dropped: Prometheus tolerates them more than other parsers
)

func newExposition(to io.Writer) *exposition {
	return &exposition{
		to: bufio.NewWriterSize(to, 16<<10), lines: bufio.NewReaderSize(nil, longestMetric),
		seed: maphash.MakeSeed(), described: map[uint64]struct{}{},
	}
}

// copied is the result of copying one source's text.
type copied struct {
	bytes   int64 // read
	dropped int   // lines that were not valid
}

// errTooLong is the error for a text beyond its limit; the part up to the limit is kept.
var errTooLong = errors.New("text is too long")

// errGone is the error for a scraper that has closed its connection.
var errGone = errors.New("the scraper has gone")

// copy copies a source's text to its end, or up to limit bytes. open is true for OpenMetrics.
func (e *exposition) copy(from io.Reader, limit int64, open bool) (c copied, err error) {
	e.lines.Reset(from)
	var of family
	for err == nil {
		var line []byte
		line, err = e.lines.ReadSlice('\n')
		c.bytes += int64(len(line))
		switch {
		case c.bytes > limit:
			return c, fmt.Errorf("%w: more than %d bytes", errTooLong, limit)
		case errors.Is(err, bufio.ErrBufferFull):
			c.dropped++
			var n int64
			n, err = e.skipLine(limit - c.bytes)
			c.bytes += n
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return c, err // the incomplete line is not written
		}
		if text := bytes.Trim(line, " \t\n"); len(text) > 0 {
			if !e.line(text, &of, open) {
				c.dropped++
			}
		}
		if _, fault := e.to.Write(nil); fault != nil {
			return c, errGone
		}
	}
	if errors.Is(err, io.EOF) {
		e.endFamily()
		err = nil
	}
	return c, err
}

// endFamily writes what was kept of a family until its last sample. Of a text that was cut short nothing is written: the sums would be too small.
func (e *exposition) endFamily() {
	if e.istio != nil {
		e.istio.flush(e.to)
	}
}

func (e *exposition) skipLine(limit int64) (n int64, err error) {
	for n <= limit { // also within a line that does not end
		rest, err := e.lines.ReadSlice('\n')
		n += int64(len(rest))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
	return n, nil
}

// line handles one line; of is the family before it, and then its own. It returns false for a line that is not valid.
func (e *exposition) line(text []byte, of *family, open bool) bool {
	if text[0] == '#' {
		return e.comment(text, of, open)
	}
	s, ok := parseSample(text, open)
	if !ok || bytes.HasPrefix(s.name, []byte(prefix)) { // another source must not write the agent's own metrics
		return false
	}
	var tags map[string]string // of one of Istio's
	if e.istio != nil {
		var written bool
		if s, tags, written = e.istio.rename(s); !written {
			return true
		}
	}
	if !of.has(s.name) {
		e.endFamily()
		e.describe('T', s.name) // a TYPE must not come after it
		of.is(s.name, "")
	}
	if tags != nil {
		return e.istio.add(s, tags)
	}
	s.write(e.to)
	return true
}

// comment handles TYPE and HELP; other comments have no meaning.
func (e *exposition) comment(text []byte, of *family, open bool) bool {
	word, rest := field(text[1:])
	name, rest := field(rest)
	isHelp, isType := string(word) == "HELP", string(word) == "TYPE"
	if e.istio != nil && (isHelp || isType) {
		var written bool
		if name, written = e.istio.description(name); !written {
			return true
		}
	}
	switch {
	case !isHelp && !isType, isHelp && open: // in OpenMetrics its name may differ from that of the samples
		return true
	case !isMetricName(name) || bytes.HasPrefix(name, []byte(prefix)):
		return false
	}
	e.endFamily()
	if isHelp {
		if !isHelpText(rest) {
			return false
		}
		if e.describe('H', name) {
			fmt.Fprintf(e.to, "# HELP %s %s\n", name, rest)
		}
		return true
	}
	kind, suffix, ok := kindOf(string(rest), open)
	if !ok {
		return false
	}
	of.is(name, suffix)
	if e.describe('T', of.name) {
		fmt.Fprintf(e.to, "# TYPE %s %s\n", of.name, kind)
	}
	if of.parted = kind == "histogram" || kind == "summary"; of.parted {
		for _, part := range parts { // they have a TYPE now
			e.describe('T', append(of.name, part...))
		}
	}
	return true
}

// parts are the suffixes of the sample names of a histogram or summary.
var parts = []string{"_bucket", "_sum", "_count"}

// describe returns true for the first description of a family, and false for a later one.
func (e *exposition) describe(what byte, name []byte) bool {
	var h maphash.Hash
	h.SetSeed(e.seed)
	h.WriteByte(what)
	h.Write(name)
	key := h.Sum64()
	if _, known := e.described[key]; known {
		return false
	}
	if len(e.described) < keptFamilies {
		e.described[key] = struct{}{}
	}
	return true
}

// kindOf returns a kind of the text format, and its suffix to the name of the family.
func kindOf(kind string, open bool) (text, suffix string, ok bool) {
	switch kind {
	case "counter":
		if open {
			suffix = "_total"
		}
		return kind, suffix, true
	case "gauge", "histogram", "summary", "untyped":
		return kind, "", true
	}
	switch {
	case !open:
		return "", "", false
	case kind == "stateset":
		return "gauge", "", true
	case kind == "info":
		return "gauge", "_info", true
	case kind == "unknown", kind == "gaugehistogram":
		return "untyped", "", true
	}
	return "", "", false
}

// family is the one whose samples may follow in a text.
type family struct {
	name   []byte
	parted bool // a histogram or summary
}

func (f *family) is(name []byte, suffix string) {
	f.name, f.parted = append(append(f.name[:0], name...), suffix...), false
}

// has reports whether a sample is of the family: it has its name, or that of a part.
func (f *family) has(name []byte) bool {
	rest, found := bytes.CutPrefix(name, f.name)
	if !found || len(f.name) == 0 {
		return false
	}
	return len(rest) == 0 || f.parted && slices.Contains(parts, string(rest))
}

// sample is a line of the text format, or of OpenMetrics, in its parts.
type sample struct {
	name, labels, value []byte // labels with their braces
	timestamp           int64  // in milliseconds
	timed               bool
}

// parseSample parses a name, optional labels in braces, a value, and an optional timestamp. In OpenMetrics the
// timestamp is in seconds, and an exemplar may follow, which is dropped.
func parseSample(text []byte, open bool) (s sample, ok bool) {
	end := 0
	for end < len(text) && isNameByte(text[end], end, ':') {
		end++
	}
	s.name = text[:end]
	rest := bytes.TrimLeft(text[end:], " \t")
	if end == 0 || len(rest) == 0 {
		return s, false
	}
	if rest[0] == '{' {
		length, ok := labelsLength(rest)
		if !ok {
			return s, false
		}
		s.labels, rest = rest[:length], rest[length:]
	} else if len(rest) == len(text[end:]) {
		return s, false // no blank after the name
	}
	if open {
		rest, _, _ = bytes.Cut(rest, []byte(" #"))
	}
	var timestamp []byte
	s.value, rest = field(rest)
	timestamp, rest = field(rest)
	if !isNumber(s.value) || len(rest) > 0 {
		return s, false
	}
	if len(timestamp) > 0 {
		s.timestamp, ok = milliseconds(timestamp, open)
		s.timed = true
		return s, ok
	}
	return s, true
}

// isNumber accepts the numbers that Prometheus accepts: no hexadecimal, no underscores.
func isNumber(text []byte) bool {
	if len(text) == 0 || bytes.ContainsAny(text, "pP_") {
		return false
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}

func milliseconds(text []byte, open bool) (int64, bool) {
	if !open {
		n, err := strconv.ParseInt(string(text), 10, 64)
		return n, err == nil
	}
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(math.Abs(seconds) < math.MaxInt64/1000) { // also refuses NaN
		return 0, false
	}
	return int64(math.Round(seconds * 1000)), true
}

func (s sample) write(to *bufio.Writer) {
	to.Write(s.name)
	to.Write(s.labels)
	to.WriteByte(' ')
	to.Write(s.value)
	if s.timed {
		to.WriteByte(' ')
		to.Write(strconv.AppendInt(to.AvailableBuffer(), s.timestamp, 10))
	}
	to.WriteByte('\n')
}

// mostLabels is the most labels of a sample: each is compared with those before it.
const mostLabels = 64

// labelsLength returns how long the labels are, braces included: names that differ, values in quotes, commas.
func labelsLength(text []byte) (length int, ok bool) {
	var names [mostLabels][]byte
	blanks := func(i int) int {
		for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
		return i
	}
	i := 1
	for n := 0; ; n++ {
		i = blanks(i)
		if i < len(text) && text[i] == '}' {
			return i + 1, true
		}
		begin := i
		for i < len(text) && isNameByte(text[i], i-begin, '_') {
			i++
		}
		name := text[begin:i]
		if n == mostLabels || len(name) == 0 || string(name) == "__name__" || contains(names[:n], name) {
			return 0, false
		}
		names[n] = name
		if i = blanks(i); i >= len(text) || text[i] != '=' {
			return 0, false
		}
		quoted := quotedLength(text[blanks(i+1):])
		if quoted == 0 {
			return 0, false
		}
		i = blanks(blanks(i+1) + quoted)
		switch {
		case i < len(text) && text[i] == ',':
			i++
		case i < len(text) && text[i] == '}':
		default:
			return 0, false
		}
	}
}

func contains(names [][]byte, name []byte) bool {
	for _, n := range names {
		if bytes.Equal(n, name) {
			return true
		}
	}
	return false
}

// quotedLength returns how long a label's value is, quotes included; 0 for none.
func quotedLength(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			if !utf8.Valid(text[1:i]) {
				return 0
			}
			return i + 1
		case '\\':
			if i++; i == len(text) || text[i] != '\\' && text[i] != '"' && text[i] != 'n' {
				return 0
			}
		}
	}
	return 0
}

func isMetricName(name []byte) bool {
	for i, b := range name {
		if !isNameByte(b, i, ':') {
			return false
		}
	}
	return len(name) > 0
}

// isNameByte accepts letters, the underscore, the byte more, and digits except at the start.
func isNameByte(b byte, at int, more byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_' || b == more || at > 0 && b >= '0' && b <= '9'
}

// isHelpText reports whether a text has only valid escapes.
func isHelpText(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if i++; i == len(text) || text[i] != '\\' && text[i] != 'n' {
				return false
			}
		}
	}
	return utf8.Valid(text)
}

// field cuts the first word off.
func field(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " \t")
	end := bytes.IndexAny(text, " \t")
	if end < 0 {
		return text, nil
	}
	return text[:end], bytes.TrimLeft(text[end:], " \t")
}
