package environ

import "strings"

// Parse reads NAME=value entries. Of two entries for one name the last counts; an entry without = is no variable.
func Parse(entries []string) map[string]string {
	out := make(map[string]string, len(entries))
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok {
			out[name] = value
		}
	}
	return out
}
