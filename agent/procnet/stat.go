package procnet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stat is the kernel's data about a process.
type Stat struct {
	State   byte          // of the main thread: R, S, D, T or t (stopped), Z (ended, see Ended)
	Parent  int           // pid
	CPU     time.Duration // used by the main thread, user and system, in steps of 10 ms
	Start   uint64        // clock ticks after boot: identifies one process together with the pid, which is reused
	Threads int
	RSS     int64 // bytes
}

// Stopped reports whether a signal has stopped the process.
func (f Stat) Stopped() bool { return f.State == 'T' }

// Traced reports whether a debugger holds the process: for as long as a person looks at it, or, as strace does, for the
// moment of a system call.
func (f Stat) Traced() bool { return f.State == 't' }

// Ended reports whether the process has exited and only waits to be reaped. While a zombie has other threads, these
// still hold its ports and memory.
func (f Stat) Ended() bool { return f.State == 'X' || f.State == 'Z' && f.Threads <= 1 }

// ReadStat reads the data of a process from one small file. For a process that has been reaped the error is
// fs.ErrNotExist.
func ReadStat(pid int) (Stat, error) {
	r, err := OpenStat(pid)
	if err != nil {
		return Stat{}, err
	}
	defer r.Close()
	return r.Read()
}

// StatReader reads a process's data again and again at the cost of one system call each.
type StatReader struct {
	file   *os.File
	pid    int
	buffer [1024]byte // a line has less than 500 bytes
}

func OpenStat(pid int) (*StatReader, error) {
	// The main thread's own file: the CPU time in the process's file includes the workers'. The other fields are the
	// same.
	file, err := os.Open(fmt.Sprintf("/proc/%d/task/%[1]d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("read facts of process %d: %w", pid, err)
	}
	return &StatReader{file: file, pid: pid}, nil
}

func (r *StatReader) Read() (Stat, error) {
	n, err := r.file.ReadAt(r.buffer[:], 0)
	switch {
	case errors.Is(err, syscall.ESRCH): // it has been reaped
		return Stat{}, fmt.Errorf("read facts of process %d: %w", r.pid, fs.ErrNotExist)
	case err != nil && err != io.EOF:
		return Stat{}, fmt.Errorf("read facts of process %d: %w", r.pid, err)
	}
	facts, err := parseStat(string(r.buffer[:n]))
	if err != nil {
		return Stat{}, fmt.Errorf("read facts of process %d: %w", r.pid, err)
	}
	return facts, nil
}

// Close closes the file.
func (r *StatReader) Close() error { return r.file.Close() }

// parseStat parses proc_pid_stat(5). The command is in parentheses and may itself contain parentheses and spaces.
func parseStat(stat string) (Stat, error) {
	const firstField, tick = 3, 10 * time.Millisecond // USER_HZ is 100 in every Linux ABI that Go supports
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= 24-firstField || len(fields[0]) != 1 {
		return Stat{}, fmt.Errorf("parse stat %.80q: too few fields", stat)
	}
	var errs []error
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(fields[field-firstField], 10, 63)
		errs = append(errs, err)
		return n
	}
	facts := Stat{
		State:   fields[0][0],
		Parent:  int(number(4)),
		CPU:     time.Duration(number(14)+number(15)) * tick,
		Threads: int(number(20)),
		Start:   number(22),
		RSS:     int64(number(24)) * int64(os.Getpagesize()),
	}
	if err := errors.Join(errs...); err != nil {
		return Stat{}, fmt.Errorf("parse stat %.80q: %w", stat, err)
	}
	return facts, nil
}
