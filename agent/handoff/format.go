//go:build !oldformat

package handoff

// Format is the number of the format that this image writes. An image that needs another field, or reads one otherwise, has another
// number.
//
//	1	the first one
//	2	and a command that came while the supervisor left
//	3	and how many log lines were lost, the lock of the certificate's directory, and what is shown to discovery
//	4	and the recorded processes that are no carried Envoys, and the path of the binary that was asked for
const Format = 4

// Formats returns the numbers of the formats that this image reads.
func Formats() []int { return []int{1, 2, 3, Format} }
