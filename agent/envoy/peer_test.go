package envoy

import (
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// connect returns both ends' addresses of a connection, and the client's end.
func connect(t *testing.T, network, listen, dial string) (peer, own netip.AddrPort, client *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen(network, listen)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	conn, err := net.Dial("tcp", net.JoinHostPort(dial, port))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	accepted, err := listener.Accept()
	must(t, err)
	t.Cleanup(func() { accepted.Close() })
	return netip.MustParseAddrPort(accepted.RemoteAddr().String()), netip.MustParseAddrPort(accepted.LocalAddr().String()), conn.(*net.TCPConn)
}

// holder starts a process that has a connection open, which this process closes.
func holder(t *testing.T, conn *net.TCPConn) int {
	t.Helper()
	file, err := conn.File()
	must(t, err)
	defer file.Close()
	cmd := exec.Command("sleep", "600")
	cmd.ExtraFiles = []*os.File{file}
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	must(t, conn.Close())
	return cmd.Process.Pid
}

// A connection is Envoy's if a process on record has it open, whatever the addresses.
func TestSends(t *testing.T) {
	for _, test := range []struct{ network, listen, dial string }{
		{"tcp", "127.0.0.1:0", "127.0.0.1"},
		{"tcp", "[::1]:0", "::1"},
		{"tcp", ":0", "127.0.0.1"}, // a socket of both families
		{"tcp", ":0", "::1"},
		{"tcp", ":0", "::ffff:127.0.0.1"},
	} {
		s := claim(t, t.TempDir())
		sends := func(what string, peer, own netip.AddrPort, want bool) {
			t.Helper()
			if got, err := s.Sends(peer, own); got != want || err != nil {
				t.Errorf("%v, %s: got %t, %v, want %t", test, what, got, err, want)
			}
		}
		peer, own, conn := connect(t, test.network, test.listen, test.dial)
		sends("of this process", peer, own, false)
		pid := holder(t, conn)
		sends("of a process that is not on record", peer, own, false)
		must(t, s.Starting(0))
		must(t, s.Started(pid, 0))
		sends("of Envoy", peer, own, true)
		otherPeer, otherOwn, otherConn := connect(t, test.network, test.listen, test.dial)
		sends("of this process, beside Envoy", otherPeer, otherOwn, false)
		holder(t, otherConn)
		sends("of another agent's, which runs the same executable", otherPeer, otherOwn, true)
		must(t, s.Ended(pid))
	}
}

// A connection that is closed, or that there never was, may have been Envoy's.
func TestSendsOfNobody(t *testing.T) {
	s := claim(t, t.TempDir())
	peer, own, conn := connect(t, "tcp", "127.0.0.1:0", "127.0.0.1")
	must(t, conn.Close())
	for _, from := range []netip.AddrPort{peer, own, netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[::1]:1")} {
		if got, err := s.Sends(from, own); got || err == nil {
			t.Errorf("%s: got %t, %v, want an error", from, got, err)
		}
	}
}

// Only Envoys on record may use the socket of secrets, and they may not use the agent's own.
func TestOwns(t *testing.T) {
	s := claim(t, t.TempDir())
	envoy, reaped := sleeper(t)
	other, _ := sleeper(t)
	must(t, s.Starting(0))
	early := make(chan error)
	go func() { early <- s.OnlyOwn(envoy) }() // before its pid is on record
	must(t, s.Started(envoy, 0))
	if err := <-early; err != nil {
		t.Errorf("during the fork: %v", err)
	}
	for pid, own := range map[int]bool{envoy: true, other: false, os.Getpid(): false} {
		if err := s.OnlyOwn(pid); (err == nil) != own {
			t.Errorf("OnlyOwn %d: %v", pid, err)
		}
		if err := s.RefuseOwn(pid); (err != nil) != own {
			t.Errorf("RefuseOwn %d: %v", pid, err)
		}
	}
	for _, hidden := range []error{fs.ErrNotExist, fs.ErrPermission} {
		if own, err := s.owns(other, procnet.Stat{}, hidden, true); own || err != nil {
			t.Errorf("a process of another user that /proc hides: %t, %v", own, err)
		}
		if own, err := s.owns(envoy, procnet.Stat{}, hidden, true); own || err == nil {
			t.Errorf("a process that has Envoy's pid, and that /proc hides: %t, %v", own, err)
		}
		if own, err := s.owns(other, procnet.Stat{}, hidden, false); own || err == nil {
			t.Errorf("a process that has ended: %t, %v", own, err)
		}
	}
	must(t, s.change(func(r *record) { r.Children[0].Start++ })) // another process has the pid now
	if err := s.OnlyOwn(envoy); err == nil {
		t.Error("a pid that came again is taken for Envoy")
	}
	process, err := os.FindProcess(envoy)
	must(t, err)
	must(t, process.Kill())
	<-reaped
	for name, refuses := range map[string]func(int) error{"OnlyOwn": s.OnlyOwn, "RefuseOwn": s.RefuseOwn} {
		if err := refuses(envoy); err == nil {
			t.Errorf("%s: a process that has ended is let in", name)
		}
	}
	if err := s.RefuseOwn(0); err != nil {
		t.Errorf("a process of another pid namespace: %v", err)
	}
}
