package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/pilotlight/pilotlight/agent/identity"
)

// Kubernetes allows 256 KiB of annotations a pod; what is more was not written by it.
const downwardLimit = 256 << 10

// readDownward reads a file of labels or annotations. The default one is Kubernetes': elsewhere there is none.
func (s *settings) readDownward(root fs.FS, name, path string) (map[string]string, error) {
	file, err := root.Open(strings.TrimPrefix(path, "/"))
	if errors.Is(err, fs.ErrNotExist) && !s.set(name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.origins[name].Name, err)
	}
	defer file.Close()
	var data []byte
	info, err := file.Stat()
	if err == nil && info.Size() > downwardLimit {
		return nil, fmt.Errorf("%s %s: has %d bytes, want at most %d", s.origins[name].Name, path, info.Size(), downwardLimit)
	}
	if err == nil {
		data, err = io.ReadAll(file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.origins[name].Name, err)
	}
	values, err := identity.ParseDownward(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.origins[name].Name, path, err)
	}
	return values, nil
}
