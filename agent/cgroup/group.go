package cgroup

import (
	"strconv"
	"strings"
)

// groupOf finds a controller's group in proc/self/cgroup: the line "5:cpu,memory:/path" of version 1, else "0::/path"
// of version 2.
func groupOf(lines, controller string) (group string, old bool) {
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[0] == "0" && fields[1] == "":
			group = fields[2]
		case strings.Contains(","+fields[1]+",", ","+controller+","):
			return fields[2], true
		}
	}
	return group, false
}

// number parses a number; it returns 0 for a text that is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
