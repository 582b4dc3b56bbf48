package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Document is a part of a file that is read by itself: its faults do not affect other documents.
type Document struct {
	Line int // of its first line in the file, from 1
	Data []byte
}

// Split cuts a YAML stream before each line "---" and after each line "...". YAML allows neither within a document, not
// even in a text. Comments and directives stay with the document that follows them.
func Split(data []byte) []Document {
	if bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe")) {
		return []Document{{1, data}} // UTF-16, which is not split into lines here
	}
	var out []Document
	line, empty := 1, true // of the document that begins at data[0]; whether nothing of it was found yet
	cut := func(at int) {
		out = append(out, Document{line, data[:at]})
		line += breaks(data[:at])
		data, empty = data[at:], true
	}
	for at := 0; at < len(data); {
		end := at + len(data[at:])
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		text := data[at:end]
		switch {
		case isMarker(text, "..."):
			cut(end)
			at = 0
			continue
		case isMarker(text, "---") && !empty:
			cut(at)
			at, empty = end-at, false
			continue
		case empty:
			trimmed := bytes.TrimSpace(text)
			empty = len(trimmed) == 0 || trimmed[0] == '#' || text[0] == '%'
		}
		at = end
	}
	if len(data) > 0 {
		cut(len(data))
	}
	return out
}

// isMarker reports whether a line is the marker, which a comment or a value may follow.
func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// breaks counts lines as the YAML package does.
func breaks(data []byte) int {
	n := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) - bytes.Count(data, []byte("\r\n"))
	for _, other := range []string{"\u0085", "\u2028", "\u2029"} {
		n += bytes.Count(data, []byte(other))
	}
	return n
}

// Item is one object of a document, or the faults in the place of one.
type Item struct {
	Object   *model.Object // nil if it is refused, or of a kind that is not served
	Closed   *model.Object // of a policy that is refused: what is served where no good form of it is known; nil for none
	Key      string        // which object it is, or was meant to be; empty if that is unknown, or its kind is not served
	Line     int
	Problems []Problem
}

// Refused reports whether an error keeps one or more objects from being read.
func (i Item) Refused() bool { return HasErrors(i.Problems) }

// shown returns the item with problems that can be shown.
func (i Item) shown() Item {
	for at, p := range i.Problems {
		i.Problems[at] = p.shown()
	}
	return i
}

// At returns the item with the position of its document: a file, and the line at which the document begins.
func (i Item) At(file string, line int) Item {
	i.Line += line - 1
	for _, of := range []**model.Object{&i.Object, &i.Closed} {
		if *of != nil {
			o := **of
			o.Origin.File, o.Origin.Line = file, i.Line
			*of = &o
		}
	}
	problems := i.Problems
	i.Problems = nil
	for _, p := range problems {
		p.File, p.Line = file, p.Line+line-1
		i.Problems = append(i.Problems, p)
	}
	return i
}

// Bounds of a document: reading it takes up to a hundred times its size in memory.
const (
	maxDocument = 8 << 20 // bytes
	maxProblems = 10_000
)

// Reader reads documents one after another and reuses its memory. It is for one goroutine; the zero value is ready.
type Reader struct{ nodes nodes }

// Read reads the objects of a document. Its lines count from 1, and no file is set: see Item.At.
func Read(data []byte) []Item { return new(Reader).Read(data) }

// ReadUntil is like Read until ended returns an error. What is not judged by then is refused.
func ReadUntil(ended func() error, data []byte) []Item { return new(Reader).read(ended, data) }

// Read is like the function Read. No result refers to the reused memory.
func (r *Reader) Read(data []byte) []Item { return r.read(never, data) }

// never is the end of judging that nobody bounds.
func never() error { return nil }

func (r *Reader) read(ended func() error, data []byte) []Item {
	if len(data) > maxDocument {
		return []Item{stopped(1, "has %d MiB, want at most %d in a document: put its objects into several, each after a line ---",
			len(data)>>20, maxDocument>>20)}
	}
	var out []Item
	roots, fault := r.nodes.documents(data)
	faults := 0
	for _, root := range unpack(roots) {
		if faults > maxProblems {
			out = append(out, stopped(root.Line, "more than %d faults stand above in this document: what follows is not read", maxProblems))
			break
		}
		item := decodeObject(ended, root).shown()
		if err := ended(); err != nil { // it may be judged in part
			return append(out, stopped(root.Line, "is not judged: %v", err))
		}
		out = append(out, item)
		faults += len(item.Problems)
	}
	if fault != nil {
		out = append(out, Item{Line: fault.Line, Problems: []Problem{fault.shown()}})
	}
	return out
}

// stopped returns an item for the part of a document that is not read, from a line on.
func stopped(line int, format string, args ...any) Item {
	return Item{Line: line, Problems: []Problem{{Line: line, Severity: Error, Message: fmt.Sprintf(format, args...)}}}
}

// unpack replaces Kubernetes' lists, which kubectl prints, by their items. Items must be objects: a list in a list is
// not unpacked.
func unpack(roots []*yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for _, root := range roots {
		if items, ok := listItems(root); ok {
			out = append(out, items...)
		} else {
			out = append(out, root)
		}
	}
	return out
}

// listItems returns the items of a List, or of a list of a kind that is served; false for anything else.
func listItems(root *yaml.Node) ([]*yaml.Node, bool) {
	var apiVersion, kind string
	var items *yaml.Node
	if root.Kind != yaml.MappingNode {
		return nil, false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch value := root.Content[i+1]; root.Content[i].Value {
		case "apiVersion":
			apiVersion = value.Value
		case "kind":
			kind = value.Value
		case "items":
			items = value
		}
	}
	_, served := kindOf(apiVersion, strings.TrimSuffix(kind, "List"))
	served = served || apiVersion != "" && manifestVersion(strings.TrimSuffix(kind, "List")) == apiVersion
	switch {
	case !strings.HasSuffix(kind, "List") || !served && (apiVersion != "v1" || kind != "List"):
		return nil, false
	case items == nil || isNull(items):
		return nil, true
	case items.Kind != yaml.SequenceNode:
		return []*yaml.Node{items}, true // which is reported as not an object
	default:
		return slices.DeleteFunc(slices.Clone(items.Content), isNull), true
	}
}
