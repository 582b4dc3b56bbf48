package model

import (
	"regexp/syntax"
	"strings"
)

// RE2Size returns the number of instructions of RE2's program for a pattern, or a few more. Envoy uses RE2 with bytes,
// as characters of Latin-1: a class costs an instruction for each range of bytes.
func RE2Size(pattern string) int {
	parsed, err := syntax.Parse(latin1(pattern), syntax.Perl)
	if err != nil {
		return len(pattern) // Go cannot parse it, so its length is the estimate
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return len(pattern)
	}
	const around = 4 // for a match that begins anywhere, and for the end
	size := around
	for _, i := range program.Inst {
		switch i.Op {
		case syntax.InstRune:
			size += max(byteRanges(i.Rune), 1)
		case syntax.InstRuneAnyNotNL:
			size += 2
		default:
			size++
		}
	}
	return size
}

// byteRanges counts the ranges, given as pairs, that begin within the values of a byte.
func byteRanges(pairs []rune) (n int) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] <= 0xff {
			n++
		}
	}
	return n
}

// latin1 returns the text with each byte as a separate character.
func latin1(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
