package config

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"unicode"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	maxRegexLength = 1024 // Istio's
	// maxRegexSize is re2.max_program_size.error_level of the bootstraps of this project and of Istio. Envoy's own default
	// is 100. Envoy refuses a whole route configuration over one regular expression that is larger.
	maxRegexSize = 32768
	// maxRegexSizes is for all regular expressions of an object together: each is made here and in every Envoy.
	maxRegexSizes = 1 << 20
)

// regex requires a pattern that Envoy's RE2 accepts, of at most Istio's length. A pattern of some bytes can stand for a
// large program, which is not made if its size is known to be too large.
func (f field) regex(pattern string) {
	if len(pattern) > maxRegexLength {
		f.errorf("is %d bytes long, want at most %d", len(pattern), maxRegexLength)
		return
	}
	fault, known := f.report.regexes[pattern]
	if !known && !f.report.done() {
		size := 0
		fault, size = regexFault(pattern)
		if f.report.size += size; f.report.size > maxRegexSizes {
			fault = fmt.Sprintf("makes the size of the object's regular expressions %d or so together, want at most %d", f.report.size, maxRegexSizes)
		}
		if f.report.regexes == nil {
			f.report.regexes = map[string]string{}
		}
		f.report.regexes[pattern] = fault
	}
	if fault != "" {
		f.errorf("%s", fault)
	}
}

// regexFault returns why Envoy would refuse a pattern, "" if it would not, and the size of its program, or as much of it
// as was made.
func regexFault(pattern string) (fault string, size int) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fmt.Sprintf("is not a regular expression of RE2: %v", err), 0
	}
	if fault := re2Fault(pattern); fault != "" {
		return "is not a regular expression of Envoy's RE2: " + fault, 0
	}
	const around = 2 // a program may be smaller than its parts, which Envoy joins
	if size = atLeast(parsed); size <= around*maxRegexSize {
		size = model.RE2Size(pattern)
	}
	if size > maxRegexSize {
		return fmt.Sprintf("is a regular expression of size %d or so, want at most %d: repeat less", size, maxRegexSize), min(size, around*maxRegexSize)
	}
	return "", size
}

// atLeast returns how many instructions the repetitions of a pattern stand for, at least.
func atLeast(r *syntax.Regexp) int {
	size := 0
	for _, sub := range r.Sub {
		size += atLeast(sub)
	}
	const enough = 1 << 40 // and no overflow
	switch r.Op {
	case syntax.OpRepeat:
		return min(size*max(r.Min, r.Max), enough)
	case syntax.OpLiteral:
		return len(r.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	default:
		return size
	}
}

// escape matches the escapes for which Go accepts more than RE2: quoted text, classes of Unicode, and characters by
// number.
var escape = regexp.MustCompile(`(?s)\\Q.*?(?:\\E|$)|\\[pP](?:\{(\^?)([^}]*)\}|(.))|\\x\{([0-9a-fA-F]+)\}|\\.`)

// re2Fault returns the part of a pattern that Go accepts and Envoy does not: classes by their long names or in another
// letter case, and characters beyond a byte, since Envoy matches bytes.
func re2Fault(pattern string) string {
	for _, m := range escape.FindAllStringSubmatch(pattern, -1) {
		if class := m[2] + m[3]; class != "" && !re2Class(class) {
			return fmt.Sprintf(`%s names no class: want a category such as \p{Lu}, or a script such as \p{Greek}`, m[0])
		}
		if n, err := strconv.ParseUint(m[4], 16, 32); m[4] != "" && (err != nil || n > 0xff) {
			return fmt.Sprintf(`%s is more than a byte, and Envoy matches bytes: want the character itself`, m[0])
		}
	}
	return ""
}

func re2Class(name string) bool {
	if slices.Contains([]string{"LC", "Cn"}, name) { // newer than RE2's tables
		return false
	}
	return name == "Any" || unicode.Scripts[name] != nil || unicode.Categories[name] != nil
}
