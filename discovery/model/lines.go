package model

import (
	"encoding/binary"
	"strings"
)

// Lines says at which line each field of an object is, from the line of the object itself. A place that is on the line of the one above it is
// left out, so that an object on one line costs nothing. Each place is its depth, how many lines it is below the place
// before, and its name: ".hosts", "[0]", or several of them joined.
type Lines string

// AppendPlace adds a place to what becomes Lines. below is counted from the place that was added before.
func AppendPlace(lines []byte, depth, below int, name string) []byte {
	lines = binary.AppendUvarint(lines, uint64(depth))
	lines = binary.AppendVarint(lines, int64(below))
	lines = binary.AppendUvarint(lines, uint64(len(name)))
	return append(lines, name...)
}

// At returns the line of a path of JSON names such as "spec.http[0].timeout", of an object at a line of its file: where the
// file has no such field, the line of the nearest one above it.
func (l Lines) At(path string, object int) int {
	line, at := object, object
	rest := []string{path} // what remains of path below each place on the way, by depth
	best := len(path) + 1
	data := []byte(l)
	for len(data) > 0 {
		depth, n := binary.Uvarint(data)
		data = data[n:]
		below, n := binary.Varint(data)
		data = data[n:]
		size, n := binary.Uvarint(data)
		name := string(data[n : n+int(size)])
		data = data[n+int(size):]
		line += int(below)
		if int(depth) >= len(rest) {
			continue // below a place that is not on the way
		}
		rest = rest[:depth+1]
		left, ok := strings.CutPrefix(rest[depth], name)
		if !ok || left != "" && left[0] != '.' && left[0] != '[' {
			continue
		}
		rest = append(rest, left)
		if len(left) < best {
			best, at = len(left), line
		}
	}
	return at
}
