package frame

import (
	"encoding/binary"
	"errors"
)

// The wire types of protobuf.
const (
	varint = 0
	fixed8 = 1 // bytes: 8
	length = 2
	fixed4 = 5
)

// ErrMalformed is the error for bytes that are no message of protobuf.
var ErrMalformed = errors.New("malformed protobuf")

// Append appends a field of bytes, of a string or of a message; an empty one is left out.
func Append(to []byte, number int, value []byte) []byte {
	if len(value) == 0 {
		return to
	}
	return append(prefix(to, number, len(value)), value...)
}

// Prefix returns what comes before the bytes of a field of that size.
func Prefix(number, size int) []byte { return prefix(nil, number, size) }

//go:noinline
func prefix(to []byte, number, size int) []byte {
	to = binary.AppendUvarint(to, uint64(number<<3|length))
	return binary.AppendUvarint(to, uint64(size))
}

// Fields calls each with every field of bytes in a message, and skips all others.
func Fields(message []byte, each func(number int, value []byte) error) error {
	return All(message, func(number int, value []byte, _ uint64) error {
		if value == nil {
			return nil
		}
		return each(number, value)
	})
}

// All calls each with every field of bytes in a message, whose value is never nil, and with every varint, whose value is nil. It skips
// all others.
func All(message []byte, each func(number int, value []byte, n uint64) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return ErrMalformed
		}
		message = message[n:]
		size := 0
		switch tag & 7 {
		case varint:
			value, n := binary.Uvarint(message)
			if n <= 0 {
				return ErrMalformed
			}
			if err := each(int(tag>>3), nil, value); err != nil {
				return err
			}
			size = n
		case fixed8:
			size = 8
		case fixed4:
			size = 4
		case length:
			value, n := binary.Uvarint(message)
			if n <= 0 || value > uint64(len(message)-n) {
				return ErrMalformed
			}
			end := n + int(value)
			if err := each(int(tag>>3), message[n:end], 0); err != nil {
				return err
			}
			size = end
		default:
			return ErrMalformed // groups are not used any more
		}
		if size > len(message) {
			return ErrMalformed
		}
		message = message[size:]
	}
	return nil
}
