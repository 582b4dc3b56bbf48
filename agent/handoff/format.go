package handoff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Format is the number of the format that this image writes, and the only one that it reads: no release has had an earlier one. An image
// that needs another field, or reads one otherwise, has another number.
const Format = 4

// Formats returns the numbers of the formats that this image reads.
func Formats() []int { return []int{Format} }

const (
	longest   = 64 << 20 // bytes of a state
	mostFiles = 64
	highest   = 1 << 20 // descriptor
)

// Process identifies a process, which keeps both over execve.
type Process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

// envelope is a state as it is written.
type envelope struct {
	Format  int             `json:"format"`
	Process Process         `json:"process"` // for which it was written
	Files   []int           `json:"files"`   // descriptors that go along
	Body    json.RawMessage `json:"body"`
}

// encode returns the text of a state.
func encode(self Process, files []int, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the agent's state: %w", err)
	}
	text, err = json.Marshal(envelope{Format, self, append([]int{}, files...), text})
	if err == nil && len(text) > longest {
		err = fmt.Errorf("it has %d bytes, want at most %d", len(text), longest)
	}
	if err != nil {
		return nil, fmt.Errorf("write the agent's state: %w", err)
	}
	return text, nil
}

// decode parses the text of a state that was written for this process. It makes no use of the descriptors.
func decode(text []byte, self Process) (envelope, error) {
	// The format first: another one may have other fields.
	var e envelope
	var numbered struct {
		Format int `json:"format"`
	}
	if len(text) > longest {
		return e, fmt.Errorf("a state of %d bytes, want at most %d", len(text), longest)
	}
	if err := json.Unmarshal(text, &numbered); err != nil {
		return e, fmt.Errorf("no state: %w", err)
	}
	if !slices.Contains(Formats(), numbered.Format) {
		return e, fmt.Errorf("a state of format %d, this agent reads %v", numbered.Format, Formats())
	}
	if err := Strict(text, &e); err != nil {
		return e, fmt.Errorf("no state: %w", err)
	}
	if e.Process != self {
		return e, fmt.Errorf("a state for process %d, started at %d, want %d, started at %d", e.Process.Pid, e.Process.Start, self.Pid, self.Start)
	}
	if len(e.Files) > mostFiles {
		return e, fmt.Errorf("a state with %d descriptors, want at most %d", len(e.Files), mostFiles)
	}
	for i, fd := range e.Files {
		if fd < 3 || fd > highest || slices.Contains(e.Files[:i], fd) {
			return e, fmt.Errorf("a state with descriptor %d, want different ones from 3 to %d", fd, highest)
		}
	}
	return e, nil
}

// Strict decodes one JSON value that has no field which the value does not know.
func Strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after its end")
	}
	return nil
}
