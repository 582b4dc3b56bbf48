package cert

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// Hash returns one hash, in hex, of files by their path. The length of each path and each content is hashed too, so
// that bytes that move from one into the next change the hash.
func Hash(contents map[string][]byte) string {
	h := sha256.New()
	write := func(data []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
	}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		write([]byte(path))
		write(contents[path])
	}
	return hex.EncodeToString(h.Sum(nil))
}
