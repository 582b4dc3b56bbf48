package hotrestart

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// keepsOthersOut checks that no other user of the network namespace can drain Envoy, end it or take its listen sockets:
// each of these needs a message to one of its sockets. As root it tries to send one; without root it checks the files'
// modes.
func (r *relatives) keepsOthersOut(epoch int) {
	r.t.Helper()
	must(r.t, os.Chmod(r.Dir, 0o755)) // as a slot's
	paths, err := filepath.Glob(r.Prefix() + "_*")
	must(r.t, err)
	if len(paths) != 12 {
		r.t.Errorf("sockets %q, want four of each of three epochs", paths)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		must(r.t, err)
		if info.Mode() != os.ModeSocket|0o600 {
			r.t.Errorf("%s has mode %s, want one for its owner alone", path, info.Mode())
		}
	}
	if os.Getuid() != 0 {
		return
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: this thread is of another user, and ends with the goroutine
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			failed <- errno
			return
		}
		failed <- errors.Join(r.DrainListeners(epoch), r.Terminate(epoch))
	}()
	if err := <-failed; !errors.Is(err, syscall.EACCES) || strings.Count(err.Error(), "permission denied") != 2 {
		r.t.Errorf("messages of another user: %v, want each refused", err)
	}
	table, err := os.ReadFile("/proc/net/unix")
	must(r.t, err)
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "@") && r.BaseID.boundIn(line) {
			r.t.Errorf("an abstract socket, which has no owner: %s", line)
		}
	}
}

func TestSocketsMustFit(t *testing.T) {
	fits := "/" + strings.Repeat("x", MaxSocketPath-len("//hot-_udp_parent_2147483642")-len(newToken()))
	for dir, want := range map[string]bool{fits: true, fits + "x": false} {
		in := Sockets{Dir: dir, Token: newToken(), BaseID: lastBaseID}
		err := Sockets{Dir: dir, Token: in.Token}.Check()
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "use a shorter --configPath") {
			t.Errorf("a directory of %d bytes: %v, want it taken: %t", len(dir), err, want)
		}
		if want {
			continue
		}
		if _, err := in.listen("udp_parent", lastSocket); err == nil {
			t.Errorf("a directory of %d bytes holds its sockets after all", len(dir))
		}
	}
}

// A socket replaces an existing one, with the mode of Envoy's sockets, and is removed with the family.
func TestListenReplaces(t *testing.T) {
	s := Sockets{Dir: t.TempDir(), Token: newToken(), BaseID: firstBaseID}
	for range 2 {
		conn, err := s.listen("parent", 1)
		must(t, err)
		defer conn.Close()
		if info, err := os.Stat(s.Path("parent", 1)); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%v, %v; want a socket for its owner alone", info, err)
		}
		must(t, s.DrainListeners(4))
	}
	must(t, s.Remove())
	empty(t, s.Dir)
}

// A family with abstract sockets, as of an older agent, is found as well.
func TestRealAbstractSocketsAreSeen(t *testing.T) {
	r := newRelatives(t)
	r.abstract = true
	p := r.start(0)
	r.awaitLive(0)
	if bound, err := r.BaseID.bound(); !bound || err != nil {
		t.Errorf("bound: %t, %v; want it seen", bound, err)
	}
	if err := r.BaseID.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("Sweep: %v, want ErrInUse", err)
	}
	p.Signal(syscall.SIGTERM)
	r.ends(p, 0)
}
