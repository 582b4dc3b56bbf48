package envoy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// record is the content of a slot's lock file: its owner and the owner's children.
type record struct {
	Agent    int     `json:"agent"` // pid
	Boot     string  `json:"boot"`  // boot ID of the machine: pids and start times begin anew with a boot
	Children []child `json:"children"`
}

type child struct {
	Pid    int               `json:"pid"`   // 0 while it is being forked
	Start  uint64            `json:"start"` // procnet.Stat.Start
	Family hotrestart.BaseID `json:"family"`
}

// block is the size of a record, padded with spaces: so a rewrite in place needs no more space on a full disk. The lock
// is on this file, so it cannot be replaced by rename.
const block = 4096

func newRecord() (record, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return record{Agent: os.Getpid(), Boot: strings.TrimSpace(string(boot))}, err
}

// write uses a single system call, so that a kill cannot leave half a record.
func (r record) write(w io.WriterAt) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	padding := block - len(text)%block
	text = append(text, bytes.Repeat([]byte(" "), padding-1)...)
	_, err = w.WriteAt(append(text, '\n'), 0)
	return err
}

// readRecord reads the first JSON value: behind it may be the rest of an earlier, longer record. An empty file has no
// record.
func readRecord(r io.Reader) (old record, found bool, err error) {
	err = json.NewDecoder(r).Decode(&old)
	if errors.Is(err, io.EOF) {
		return record{}, false, nil
	}
	return old, err == nil, err
}

// inherit ends the children of the slot's last owner, removes their files and shared memory, and returns the children
// that it could not end, to be kept on record.
func (s *Slot) inherit() []child {
	old, found, err := readRecord(io.NewSectionReader(s.lock, 0, 1<<20))
	if err != nil {
		s.log.Warn("record of a killed agent not read: an Envoy of it may still run", "file", s.lock.Name(), "err", err)
	}
	if !found {
		return nil
	}
	s.log.Info("the last agent was killed: its Envoys and files are removed", "dir", s.name, "pid", old.Agent, "children", len(old.Children))
	var remaining []child
	for _, c := range old.Children {
		if old.Boot != s.record.Boot {
			break
		}
		killed, err := c.kill(s.record.Agent)
		switch {
		case err != nil:
			s.log.Warn("Envoy of a killed agent not killed", "pid", c.Pid, "base_id", c.Family, "err", err)
			remaining = append(remaining, c)
		case killed:
			s.log.Info("Envoy of a killed agent killed", "pid", c.Pid, "base_id", c.Family)
		}
	}
	for _, c := range old.Children {
		if err := s.sweep(c.Family); err != nil {
			s.log.Warn("shared memory and sockets of a killed agent not removed", "base_id", c.Family, "err", err)
		}
	}
	if err := sweepFiles(s.dir); err != nil {
		s.log.Warn("files of a killed agent not removed", "dir", s.name, "err", err)
	}
	return remaining
}

// killTimeout bounds the wait for a process that was killed: it is gone in milliseconds, unless it hangs in the
// kernel.
const killTimeout = 3 * time.Second

// kill ends the child if it still runs: the process with its pid, if the start time is the same.
func (c child) kill(self int) (bool, error) {
	if c.Pid <= 1 || c.Pid == self || !c.lives() {
		return false, nil
	}
	process, err := os.FindProcess(c.Pid) // holds a pidfd, so the signal goes to the process that is checked below
	if err != nil {
		return false, err
	}
	defer process.Release()
	if !c.lives() {
		return false, nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, err
	}
	for deadline := time.Now().Add(killTimeout); c.lives(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false, fmt.Errorf("it outlived SIGKILL by %s", killTimeout)
		}
	}
	return true, nil
}

// lives is false for a zombie, which only its parent can reap.
func (c child) lives() bool {
	facts, err := procnet.ReadStat(c.Pid)
	return err == nil && facts.Start == c.Start && !facts.Ended()
}

// epochFile matches the files that an epoch leaves in its slot, temporary ones included, and no file that a user would
// put there. It is compiled at the first use, so that a start does not pay for it.
var epochFile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(envoy-(rev\d+|trial)\.(json|ya?ml)|envoy-check(-\d+)?\.(json|ya?ml)|sds-(certificate|roots)\.json|` +
		`((admin-rev\d+|agent|sds)(-` + tokenPattern + `)?|(admin-trial|ads)-` + tokenPattern + `)\.sock|` +
		`hot(-` + tokenPattern + `)?_(udp_|new_)?(parent|child)_\d+|\.envoy-\d+)$`)
})

func sweepFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.IsDir() || !epochFile().MatchString(entry.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
