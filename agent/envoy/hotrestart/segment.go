package hotrestart

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A family's segment of shared memory, as hot-restart version 11.104 lays it out on x86-64 (hot_restart_impl.h; the
// offsets were measured on Envoy 1.40):
//
//	0  size = 104   8  version = 11   16  two mutexes of 40 bytes   96  flags, bit 0: INITIALIZING
//
// A newcomer sets INITIALIZING when it attaches and clears it when its workers run. A newcomer that is killed in
// between leaves it set, and then each later one exits with status 1: "previous envoy process is still initializing".
const (
	SharedMemoryDir = "/dev/shm"
	segmentSize     = 104
	segmentVersion  = 11
	flagsOffset     = 96
	initializing    = 1
)

// ErrInUse is the error of Sweep while a process still uses the family.
var ErrInUse = errors.New("still in use")

func (f BaseID) Segment() string {
	return filepath.Join(SharedMemoryDir, "envoy_shared_memory_"+strconv.FormatUint(uint64(f)*scale, 10))
}

// Initializing reports whether the flag is set: a newcomer has attached and does not serve yet, or was killed before it
// did.
func (f BaseID) Initializing() (bool, error) {
	flags, err := readFlags(f.Segment())
	if err != nil {
		return false, fmt.Errorf("read shared memory of base-id %d: %w", f, err)
	}
	return flags == initializing, nil
}

// ClearInitializing repairs the segment after a newcomer that was killed before it served: without the repair no other
// newcomer can start. It reports whether the flag was set. The newcomer must have been reaped.
func (f BaseID) ClearInitializing() (was bool, err error) {
	if was, err = f.Initializing(); !was {
		return false, err
	}
	file, err := os.OpenFile(f.Segment(), os.O_WRONLY, 0)
	if err != nil {
		return false, fmt.Errorf("repair shared memory of base-id %d: %w", f, err)
	}
	// One byte, as the others of the flags are known to be zero, and a process that serves uses none of them.
	_, err = file.WriteAt([]byte{0}, flagsOffset)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, fmt.Errorf("repair shared memory of base-id %d: %w", f, err)
	}
	return true, nil
}

func readFlags(path string) (uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, segmentSize+1))
	if err != nil {
		return 0, err
	}
	return parseFlags(data)
}

// parseFlags accepts only the exact known layout: a wrong guess would write into the mutex of a running Envoy.
func parseFlags(segment []byte) (uint64, error) {
	if len(segment) != segmentSize {
		return 0, fmt.Errorf("unknown layout: %d bytes, want %d", len(segment), segmentSize)
	}
	size, version := binary.LittleEndian.Uint64(segment), binary.LittleEndian.Uint64(segment[8:])
	flags := binary.LittleEndian.Uint64(segment[flagsOffset:])
	if size != segmentSize || version != segmentVersion || flags > initializing {
		return 0, fmt.Errorf("unknown layout: size %d, version %d, flags %#x; want %d, %d, 0 or 1",
			size, version, flags, segmentSize, segmentVersion)
	}
	return flags, nil
}

// Sweep removes the family's segment, which Envoy never does. It returns ErrInUse while a process still uses it.
func (f BaseID) Sweep() error {
	file, err := os.Open(f.Segment())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep base-id %d: %w", f, err)
	}
	defer file.Close()
	used, err := f.bound()
	if err == nil && !used {
		used, err = mapped(file)
	}
	if used {
		err = ErrInUse
	}
	if err == nil {
		err = os.Remove(f.Segment())
	}
	if err != nil {
		return fmt.Errorf("sweep base-id %d: %w", f, err)
	}
	return nil
}

// mapped reports whether any process has the file open or mapped for writing, in any namespace, which
// /proc/*/maps would not show: the kernel grants no read lease then (fcntl(2), F_SETLEASE). Closing the file ends
// the lease.
func mapped(file *os.File) (bool, error) {
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return true, nil
	case errors.Is(err, unix.EINVAL): // a file system without leases: the check of the family's sockets has to do
		return false, nil
	}
	return false, err
}

// SharedMemory returns nil if shared memory for a hot restart is available here, else the reason why not. It writes a
// file, since ftruncate and mmap succeed on a full /dev/shm and Envoy would then die by SIGBUS.
func SharedMemory() error { return writable(SharedMemoryDir) }

func writable(dir string) error {
	file, err := os.CreateTemp(dir, ".envoy-")
	if err != nil {
		return fmt.Errorf("use shared memory: %w", err)
	}
	_, err = file.Write(make([]byte, segmentSize))
	if err = errors.Join(err, file.Close(), os.Remove(file.Name())); err != nil {
		return fmt.Errorf("use shared memory: %w", err)
	}
	return nil
}
