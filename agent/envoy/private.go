package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// If other users may write to configPath, as to most volumes of Kubernetes (mode 0777), they can rename each file in it and
// give Envoy another bootstrap. Then a slot is a directory that only its owner may enter:
//
//	configPath/private-0/agent.lock  the first agent
//	configPath/private-1/agent.lock  the second one, which found the first slot taken, and so on
//
// Other users can still rename that directory. So the agent opens it once, checks it by its descriptor, and uses paths
// through the descriptor, such as /dev/fd/64/envoy-rev0.json. Envoy inherits the descriptor under the same number, so the
// same path works in Envoy.
const privatePrefix = "private-"

// firstPrivate is the lowest number for a slot's descriptor: lower numbers are for the child's other descriptors.
const firstPrivate = 64

func privateName(n int) string { return privatePrefix + strconv.Itoa(n) }

// notOurs is the error that a name in configPath cannot be used as a slot.
type notOurs struct{ why string }

func (e notOurs) Error() string { return e.why }

// errRemoved is the error for a directory that the agent has just made, and that another user has removed while it was
// empty.
var errRemoved = notOurs{"another user has removed it"}

// openPrivate opens the directory of a slot in configPath. If the directory is missing and mayMake is set, it makes it.
func openPrivate(base *os.File, n int, mayMake bool) (*os.File, error) {
	name := privateName(n)
	path := filepath.Join(base.Name(), name)
	if mayMake {
		if err := unix.Mkdirat(int(base.Fd()), name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
	}
	fd, err := unix.Openat(int(base.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, notOurs{"it is no directory"}
	case errors.Is(err, unix.EACCES):
		return nil, notOurs{"it may not be read"}
	case mayMake && errors.Is(err, fs.ErrNotExist):
		return nil, errRemoved
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	low := os.NewFile(uintptr(fd), path)
	defer low.Close()
	dir, err := keepOpen(low)
	if err != nil {
		return nil, err
	}
	if err := judgePrivate(dir); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// keepOpen returns an open directory under a number that does not collide with a child's other descriptors.
func keepOpen(dir *os.File) (*os.File, error) {
	high, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, firstPrivate)
	if err != nil {
		return nil, &fs.PathError{Op: "keep open", Path: dir.Name(), Err: err}
	}
	return os.NewFile(uintptr(high), dir.Name()), nil
}

// judgePrivate checks an open directory, and the path to it.
func judgePrivate(dir *os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	owner, err := ownerOf(info)
	switch {
	case err != nil:
		return err
	case owner != uint32(os.Geteuid()):
		return notOurs{fmt.Sprintf("it belongs to user %d", owner)}
	case info.Mode().Perm()&0o077 != 0:
		return notOurs{fmt.Sprintf("others may enter it: mode %s", info.Mode())}
	}
	named, err := os.Stat(throughFd(dir))
	if err != nil || !os.SameFile(info, named) {
		return fmt.Errorf("%s does not lead to %s, where others may write: mount /proc and /dev/fd (%w)",
			throughFd(dir), dir.Name(), errors.Join(err, fs.ErrInvalid))
	}
	return nil
}

func throughFd(dir *os.File) string { return "/dev/fd/" + strconv.Itoa(int(dir.Fd())) }

// removePrivate removes a slot's directory if it is empty and still has its name.
func removePrivate(base, dir *os.File) error {
	name := filepath.Base(dir.Name())
	var ours, named unix.Stat_t
	err := unix.Fstat(int(dir.Fd()), &ours)
	if err == nil {
		err = unix.Fstatat(int(base.Fd()), name, &named, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && (ours.Dev != named.Dev || ours.Ino != named.Ino) {
		err = errors.New("another directory has taken its name")
	}
	if err == nil {
		err = unix.Unlinkat(int(base.Fd()), name, unix.AT_REMOVEDIR)
	}
	if err == nil || errors.Is(err, unix.ENOTEMPTY) { // flight records stay
		return nil
	}
	return &fs.PathError{Op: "remove", Path: dir.Name(), Err: err}
}

// FindSlot returns the directory of the first agent's files: configPath, or a directory in it that only the agent's
// user may enter. Root does not have the user of the agent, so it gets the first such directory.
func FindSlot(configPath string) string {
	self := uint32(os.Geteuid())
	for n := range slots {
		dir := filepath.Join(configPath, privateName(n))
		info, err := os.Lstat(dir)
		if err != nil {
			break
		}
		owner, err := ownerOf(info)
		if err == nil && info.IsDir() && (self == 0 || owner == self) {
			return dir
		}
	}
	return configPath
}
