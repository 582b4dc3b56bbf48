package handoff

// Format is the number of the format that this image writes, and the only one that it reads: no release has had an earlier one. An image
// that needs another field, or reads one otherwise, has another number.
const Format = 4

// Formats returns the numbers of the formats that this image reads.
func Formats() []int { return []int{Format} }
