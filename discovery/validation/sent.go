package validation

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxSent is the largest size in bytes of what is sent to a running discovery; base64 makes a file a third longer.
const MaxSent = 8 << 20

// Text is one file as it is sent to a running discovery.
type Text struct {
	Name  string `json:"name"`
	Data  []byte `json:"data,omitempty"`
	Error string `json:"error,omitempty"` // why there is no Data
}

// Sent returns files as they are sent. It fails if they are too large.
func Sent(files []Text) ([]byte, error) {
	text, err := json.Marshal(files)
	if err == nil && len(text) > MaxSent {
		err = fmt.Errorf("the files have %d bytes as they are sent, want %d at most: validate a part of them", len(text), MaxSent)
	}
	return text, err
}

// Received reads files that were sent.
func Received(text []byte) (files []Text, err error) {
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("read files: %w, want a list of name and data", err)
	}
	return files, nil
}

// ReadLive reads the verdict of a running discovery.
func ReadLive(text []byte) (v Verdict, err error) {
	if err = json.Unmarshal(text, &v); err == nil && (v.Live == nil || v.Problems == nil) {
		err = errors.New("there is no verdict in it")
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("read the verdict: %w; is it a discovery of this version?", err)
	}
	v.reason = ofLive
	return v, nil
}
