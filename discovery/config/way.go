package config

import "strconv"

// step is one part of the path to a place in an object: a field of a message, the key of a map, or an item of a list.
type step struct {
	name string // of the field, or the key
	item int    // from 1
	key  bool   // the name is the choice of the object's author
}

// way is a path from the root of an object.
type way struct {
	up *way // nil at the root
	step
}

// String returns "spec.http[0].timeout". Keys that could be read as more than a key are in brackets and quotes:
// spec.http[0].headers.request.set["x\ny"].
func (w *way) String() string {
	if w.up == nil {
		return w.name
	}
	return w.up.String() + w.text()
}

// maxKey is how many bytes of a key a path shows.
const maxKey = 100

func (s step) text() string {
	switch {
	case s.item > 0:
		return "[" + strconv.Itoa(s.item-1) + "]"
	case !s.key || isBare(s.name):
		return "." + s.name
	case len(s.name) > maxKey:
		return "[" + strconv.Quote(s.name[:maxKey]) + "…]"
	default:
		return "[" + strconv.Quote(s.name) + "]"
	}
}

// isBare reports whether a key is of visible ASCII without brackets, quotes and backslashes, and not long.
func isBare(key string) bool {
	for i := range len(key) {
		switch c := key[i]; {
		case c <= ' ' || c > '~', c == '[', c == ']', c == '"', c == '\'', c == '`', c == '\\':
			return false
		}
	}
	return key != "" && len(key) <= maxKey
}
