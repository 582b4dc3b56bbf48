//go:build oldformat

package handoff

// Format is the one of the first image that could be replaced. An agent that is built with the tag oldformat stands for it in tests.
const Format = 1

// Formats are those that such an image reads.
func Formats() []int { return []int{Format} }
