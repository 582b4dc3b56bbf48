package identity

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseDownward parses labels or annotations as the downward API writes them to a file: lines of name="value", with the
// value quoted as in Go.
func ParseDownward(text string) (map[string]string, error) {
	out := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, quoted, found := strings.Cut(line, "=")
		value, err := strconv.Unquote(quoted)
		if !found || name == "" || err != nil {
			return nil, fmt.Errorf(`line %d: is %.40q, want name="value"`, number, line)
		}
		out[name] = value
	}
	return out, nil
}
