package proxy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/pilotlight/pilotlight/agent/identity"
)

// downwardLimit is 256 KiB, Kubernetes' limit of a pod's annotations: a larger file is not from Kubernetes.
const downwardLimit = 256 << 10

// readDownward reads a file of labels or annotations. The default path is that of Kubernetes: elsewhere the file is
// missing, which is no fault.
func (i Input) readDownward(root fs.FS) (map[string]string, error) {
	file, err := root.Open(strings.TrimPrefix(i.Path, "/"))
	if errors.Is(err, fs.ErrNotExist) && !i.Given {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.Name, err)
	}
	defer file.Close()
	var data []byte
	info, err := file.Stat()
	if err == nil && info.Size() > downwardLimit {
		return nil, fmt.Errorf("%s %s: has %d bytes, want at most %d", i.Name, i.Path, info.Size(), downwardLimit)
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(file, downwardLimit+1))
	}
	if err == nil && len(data) > downwardLimit {
		err = fmt.Errorf("%s grew beyond %d bytes while it was read", i.Path, downwardLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.Name, err)
	}
	values, err := identity.ParseDownward(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", i.Name, i.Path, err)
	}
	return values, nil
}
