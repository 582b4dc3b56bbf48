package model

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine returns a text with the characters escaped that do not print: ends of lines, terminals' commands, marks that
// turn the direction of the text. Texts about objects have parts that the objects' authors chose.
func OneLine(s string) string {
	clean := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
