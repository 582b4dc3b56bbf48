package metrics

import (
	"bufio"
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

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
