package agent

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A service manager hears that Envoy serves once it does, signs of life, and that the end has begun.
func TestTheServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	dir := lab.ShortDir(t)
	socket := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	s := newStandalone(t)
	process, err := lab.Start(lab.Spec{
		Name: "agent", Dir: dir, Env: []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=100000"},
		Argv: []string{
			lab.Program("agent"), "proxy", "--serviceregistry", "Other", "--ip", "127.0.0.1", "--binaryPath", lab.Envoy(),
			"--configPath", filepath.Join(dir, "proxy"), "--customConfigFile", s.config, "--proxyAdminPort", "0",
			"--statusPort", "0",
		},
	})
	s.must(err)
	defer process.Stop(lab.StopLimit)
	hears := func(want string) {
		t.Helper()
		s.must(manager.SetReadDeadline(time.Now().Add(lab.StopLimit)))
		buffer := make([]byte, 200)
		for {
			n, err := manager.Read(buffer)
			if err != nil {
				t.Fatalf("the manager waits for %q: %v:\n%s", want, err, process.Log())
			}
			if strings.HasPrefix(string(buffer[:n]), want) {
				return
			}
		}
	}
	hears("READY=1")
	if _, err := lab.Get("http://" + s.address); err != nil {
		t.Errorf("said to be ready, but: %v", err)
	}
	hears("WATCHDOG=1")
	hears("WATCHDOG=1")
	if code := process.Stop(lab.StopLimit); code != 0 {
		t.Errorf("exit status %d:\n%s", code, process.Log())
	}
	hears("STOPPING=1")
}
