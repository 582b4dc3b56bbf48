package handoff

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setName sets the name of the calling thread, which is the name of the process if the thread is the main one. After an execve of a
// descriptor's path it is the descriptor's number.
func setName(name *byte) error {
	return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
}
