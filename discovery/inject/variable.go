package inject

import "regexp"

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// longestVariable is the length of a variable and its value with which Linux still starts a program: 32 pages, with = and
// the zero byte.
const longestVariable = 32*4096 - 2
