package hotrestart

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// BaseID is a base-id, shared by the Envoys that hand over to each other by hot restart. Envoy multiplies it by ten,
// and names a segment of shared memory and four sockets per process after the product (hot_restart_impl.cc,
// hot_restarting_base.cc):
//
//	/dev/shm/envoy_shared_memory_{family×10}
//	{--socket-path}_[udp_]{parent|child}_{family×10 + restart epoch mod 3}, see Sockets
//
// Zero is no family: the default base-id of Envoy, and the value of an epoch without hot restart.
type BaseID uint32

// The range begins above the numbers that people choose. It ends before Envoy's C int overflows: with --base-id
// 400000001, Envoy names its sockets …_18446744073414584330 (measured on 1.40).
const (
	firstBaseID BaseID = 1_000_000
	lastBaseID  BaseID = (math.MaxInt32 - lastSocket) / scale
)

const (
	scale      = 10
	processes  = 3 // of a family that can run at once: the third makes the second end the first
	lastSocket = processes - 1
)

// NewBaseID draws a random family that is not in use on this host. It reserves nothing: two calls at the same time draw
// the same family with a probability of one in 200 million.
func NewBaseID() (BaseID, error) {
	return drawBaseID(func() BaseID {
		return firstBaseID + BaseID(rand.Uint32N(uint32(lastBaseID-firstBaseID+1)))
	})
}

func drawBaseID(draw func() BaseID) (BaseID, error) {
	const draws = 100
	for range draws {
		f := draw()
		taken, err := f.InUse()
		if err != nil {
			return 0, fmt.Errorf("find a free base-id: %w", err)
		}
		if !taken {
			return f, nil
		}
	}
	return 0, fmt.Errorf("find a free base-id: %d drawn, each had a segment in %s or a socket", draws, SharedMemoryDir)
}

// InUse reports whether shared memory or a socket has the family's name, of a running process or left behind.
func (f BaseID) InUse() (bool, error) {
	if _, err := os.Lstat(f.Segment()); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	return f.bound()
}

// bound reports whether a process of this network namespace has one of the family's sockets.
func (f BaseID) bound() (bool, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return false, err
	}
	return f.boundIn(string(table)), nil
}

// boundIn searches a table of /proc/net/unix for the family's sockets, both files and abstract sockets, which Envoy
// makes without --socket-path. The table shows each NUL of an abstract name as an @.
func (f BaseID) boundIn(table string) bool {
	for line := range strings.Lines(table) {
		name := strings.TrimRight(line, "@\n")
		last := strings.LastIndexByte(name, '_')
		if last < 0 || !strings.HasSuffix(name[:last], "_parent") && !strings.HasSuffix(name[:last], "_child") {
			continue
		}
		number, err := strconv.ParseUint(name[last+1:], 10, 32)
		if err == nil && BaseID(number/scale) == f {
			return true
		}
	}
	return false
}

func (f BaseID) String() string { return strconv.FormatUint(uint64(f), 10) }
