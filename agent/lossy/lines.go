package lossy

import (
	"bytes"
	"io"
)

// longest is how many bytes of a line are buffered until its end. A longer line is passed on in pieces.
const longest = 64 << 10

// Lines joins pieces to whole lines, for a Writer that may drop its input.
type Lines struct {
	To    io.Writer
	begun []byte // of a line that has not ended
}

// Resume goes on with a line that other Lines have begun.
func Resume(to io.Writer, begun []byte) *Lines { return &Lines{To: to, begun: begun} }

// Begun returns the line that has not ended.
func (l *Lines) Begun() []byte { return bytes.Clone(l.begun) }

// Write accepts any piece of output.
func (l *Lines) Write(piece []byte) (int, error) {
	end := bytes.LastIndexByte(piece, '\n') + 1
	if end == 0 && len(l.begun)+len(piece) <= longest {
		l.begun = append(l.begun, piece...)
		return len(piece), nil
	}
	if end == 0 {
		end = len(piece)
	}
	whole := piece[:end]
	if len(l.begun) > 0 {
		whole = append(l.begun, whole...)
	}
	if _, err := l.To.Write(whole); err != nil {
		return 0, err
	}
	l.begun = append([]byte(nil), piece[end:]...)
	return len(piece), nil
}

// Close passes on a line that has no end.
func (l *Lines) Close() error {
	if len(l.begun) == 0 {
		return nil
	}
	_, err := l.To.Write(append(l.begun, '\n'))
	l.begun = nil
	return err
}
