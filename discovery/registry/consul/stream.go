package consul

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pilotlight/pilotlight/internal/bounded"
)

// Answers are decoded element by element, so that the memory depends on the fields that are kept, not on the size of the
// answer: a check's output, and definitions, are longer than all else.

// mostElement is how many bytes one element may have.
const mostElement = 8 << 20

var errLongElement = fmt.Errorf("one element of the answer is longer than %d MiB", mostElement>>20)

// readList reads a list.
func readList[T any](in io.Reader) ([]T, error) {
	out := []T{}
	err := elements(in, '[', func(decoder *json.Decoder) error {
		var element T
		if err := decoder.Decode(&element); err != nil {
			return err
		}
		out = append(out, element)
		return nil
	})
	return out, err
}

// readMap reads an object.
func readMap[T any](in io.Reader) (map[string]T, error) {
	out := map[string]T{}
	err := elements(in, '{', func(decoder *json.Decoder) error {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		var element T
		if err := decoder.Decode(&element); err != nil {
			return err
		}
		out[key.(string)] = element // the decoder accepts nothing else as a key
		return nil
	})
	return out, err
}

// elements reads a list or an object, whose elements each reads.
func elements(in io.Reader, open json.Delim, each func(*json.Decoder) error) error {
	from := bounded.New(in, mostElement, errLongElement)
	decoder := json.NewDecoder(from)
	switch first, err := decoder.Token(); {
	case err != nil:
		return whole(err)
	case first == nil:
		return errNull
	case first != open:
		return fmt.Errorf("found %.20q, want %s", fmt.Sprint(first), open)
	}
	for decoder.More() {
		from.Renew()
		if err := each(decoder); err != nil {
			return whole(err)
		}
	}
	_, err := decoder.Token()
	return whole(err)
}

// whole returns the error of an answer that ends too soon for its end.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
