package model

import (
	"encoding/binary"
	"strings"
)

// Lines encodes the line of each field of an object, relative to the line of the object itself. A field on the same
// line as its parent is left out, so an object on one line needs no bytes. Each entry is a place: its depth, its
// distance in lines from the entry before, and its name: ".hosts", "[0]", or several of them joined.
type Lines string

// AppendPlace appends a place to encoded Lines. below is the distance in lines from the place that was added before.
func AppendPlace(lines []byte, depth, below int, name string) []byte {
	lines = binary.AppendUvarint(lines, uint64(depth))
	lines = binary.AppendVarint(lines, int64(below))
	lines = binary.AppendUvarint(lines, uint64(len(name)))
	return append(lines, name...)
}

// At returns the line of a path of JSON names such as "spec.http[0].timeout"; object is the line of the object in its
// file. If the file has no such field, it returns the line of the nearest field above it.
func (l Lines) At(path string, object int) int {
	line, at := object, object
	rest := []string{path} // the part of path below each place on the way, by depth
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
			continue // below a place that is not on the path
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
