package statedir

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// frame is room for the first and the last line of a text.
const frame = 4 << 10

// Text returns groups of a source as a file has them, in at most that many bytes, and the keys of those that do not fit: the largest, so that
// few of one owner leave room for the others'.
func Text(source string, of Of, groups map[string]model.Group, most int64, now time.Time) (text []byte, left []string, err error) {
	lengths := map[string]int{}
	for key, group := range groups {
		line, err := encode(key, group)
		if err != nil {
			return nil, nil, err
		}
		lengths[key] = len(line)
	}
	fit, size := map[string]model.Group{}, int64(frame)
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(lengths[a], lengths[b]), cmp.Compare(a, b))
	}) {
		if size += int64(lengths[key]); size > most {
			left = append(left, key)
			continue
		}
		fit[key] = groups[key]
	}
	var out bytes.Buffer
	_, err = write(&out, header{Source: source, Of: of, At: now}, fit, most)
	return out.Bytes(), left, err
}

// Groups reads a text of Text, of a source that depends on the same. Its error completes a sentence about the text.
func Groups(text []byte, source string, of Of) (map[string]model.Group, error) {
	h, groups, err := read(bytes.NewReader(text), maxFile)
	if err != nil {
		return nil, err
	}
	if why := h.unlike(source, of); why != "" {
		return nil, errors.New(why)
	}
	return groups, nil
}
