package envoy

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// duplicates is a Carrier within a process.
type duplicates struct{}

func (duplicates) Give(file syscall.Conn) (number int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return none, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { number, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	return number, errors.Join(err, failed)
}

func (duplicates) Take(number int, name string) (*os.File, error) {
	return os.NewFile(uintptr(number), name), nil
}

func (d duplicates) Keep(number int, name string) (*os.File, error) { return d.Take(number, name) }

func (d duplicates) GiveSame(file *os.File) (int, error) { return d.Give(file) }

// What becomes of a slot whose lock file is gone when another image of the agent goes on to own it.
func TestASlotIsAdoptedWithoutItsLockFile(t *testing.T) {
	left := child{Pid: 1 << 30, Start: 7, Family: 3}
	envoys := Carried{Processes: []CarriedProcess{{Pid: 1<<30 - 1, Start: 5, Family: 4}}}
	for name, test := range map[string]struct {
		remove  func(dir string) error
		another bool // agent has claimed the slot since
	}{
		"the directory is gone": {os.RemoveAll, false},
		"the file is gone":      {func(dir string) error { return os.Remove(filepath.Join(dir, lockName)) }, false},
		"another agent has it":  {func(dir string) error { return os.Remove(filepath.Join(dir, lockName)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(lab.ShortDir(t), "proxy")
			s := claim(t, dir)
			must(t, s.change(func(r *record) { r.Children = append(envoys.children(), left) }))
			carried, err := s.Carry(duplicates{}, envoys)
			must(t, err)
			must(t, test.remove(dir))
			if test.another {
				claim(t, dir)
			}
			adopted, err := AdoptSlot(carried, envoys, duplicates{}, slog.New(slog.NewTextHandler(t.Output(), nil)))
			must(t, err)
			t.Cleanup(adopted.die)
			if err := adopted.Renew(); errors.Is(err, errLost) != test.another || !test.another && err != nil {
				t.Errorf("Renew: %v", err)
			}
			if got := adopted.record.Children; len(got) != 2 || got[0] != envoys.children()[0] || got[1] != left {
				t.Errorf("children %v, want %v and %v", got, envoys.children(), left)
			}
			file, err := os.Open(filepath.Join(dir, lockName))
			must(t, err)
			defer file.Close()
			written, found, err := readRecord(file)
			must(t, err)
			if want := 2; test.another && len(written.Children) != 0 || !test.another && (!found || len(written.Children) != want) {
				t.Errorf("the lock file has %+v, found %t; another agent's %t", written, found, test.another)
			}
			if got := names(t, dir); len(got) != 1 {
				t.Errorf("in the directory is %q, want the lock file only", got)
			}
			adopted.record.Children = nil
			_ = adopted.Release()
			if _, err := os.Stat(filepath.Join(dir, lockName)); (err == nil) != test.another {
				t.Errorf("after its release the lock file: %v; another agent's %t", err, test.another)
			}
		})
	}
}
