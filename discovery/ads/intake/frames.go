package intake

import "encoding/binary"

// Lengths of HTTP/2 and gRPC, in bytes.
const (
	preface       = 24 // of a connection
	frameHeader   = 9
	messageHeader = 5
)

// Types and flags of frames.
const (
	typeData      = 0
	typeReset     = 3
	flagEndStream = 1
	flagPadded    = 8
)

// frames finds the payloads of DATA frames in the bytes that a client sends. It keeps no payload.
type frames struct {
	skip   int // bytes before the next header, or of padding
	header [frameHeader]byte
	have   int // bytes of header

	stream uint32
	ends   bool
	padded bool // the next byte is the length of the padding
	data   int  // bytes of data that are left in the frame
	tail   int  // bytes of padding behind them
}

func newFrames() frames { return frames{skip: preface} }

// listener hears what is in the frames.
type listener interface {
	// frame is called at the begin of a DATA frame, with the length of its payload.
	frame(stream uint32, length int)
	data(stream uint32, part []byte)
	// ended is called when no more data of a stream comes.
	ended(stream uint32)
}

// read takes the next bytes of a connection.
func (f *frames) read(b []byte, to listener) {
	for len(b) > 0 {
		switch {
		case f.skip > 0:
			n := min(f.skip, len(b))
			f.skip, b = f.skip-n, b[n:]
		case f.padded:
			f.padded = false
			f.tail = min(int(b[0]), f.data-1) // gRPC ends the connection if there is more padding than data
			f.data -= 1 + f.tail
			b = b[1:]
			f.end(to)
		case f.data > 0:
			n := min(f.data, len(b))
			to.data(f.stream, b[:n])
			f.data, b = f.data-n, b[n:]
			f.end(to)
		default:
			n := copy(f.header[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have == frameHeader {
				f.have = 0
				f.begin(to)
			}
		}
	}
}

// begin takes a header of a frame.
func (f *frames) begin(to listener) {
	length := int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	flags := f.header[4]
	f.stream = binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31)
	switch f.header[3] {
	case typeData:
		to.frame(f.stream, length)
		f.data, f.ends = length, flags&flagEndStream != 0
		f.padded = flags&flagPadded != 0 && length > 0
		f.end(to)
	case typeReset:
		to.ended(f.stream)
		f.skip = length
	default:
		f.skip = length
	}
}

// end skips the padding of a frame of which all data came, and ends its stream.
func (f *frames) end(to listener) {
	if f.data > 0 || f.padded {
		return
	}
	f.skip, f.tail = f.tail, 0
	if f.ends {
		f.ends = false
		to.ended(f.stream)
	}
}
