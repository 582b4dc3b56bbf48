package bounded

import "io"

// Reader reads from another reader, and fails with a fault once that gives more bytes than allowed.
type Reader struct {
	in         io.Reader
	most, left int64
	fault      error
}

// New returns a reader of at most that many bytes. The fault should name what is too long, and the limit.
func New(in io.Reader, most int64, fault error) *Reader {
	return &Reader{in: in, most: most, left: most, fault: fault}
}

// Renew allows as many bytes from here on as at the beginning: for one element of a list after another. A decoder reads
// ahead, so its buffer counts for the element before.
func (r *Reader) Renew() { r.left = r.most }

// Read reads up to the limit. After it, it returns the end or the error of the reader below, or the fault.
func (r *Reader) Read(to []byte) (int, error) {
	if r.left > 0 || len(to) == 0 {
		n, err := r.in.Read(to[:min(int64(len(to)), max(r.left, 0))])
		r.left -= int64(n)
		return n, err
	}
	if r.left < 0 {
		return 0, r.fault
	}
	switch n, err := r.in.Read(to[:1]); {
	case n > 0:
		r.left = -1 // the byte is lost, so the fault stays
		return 0, r.fault
	default:
		return 0, err
	}
}
