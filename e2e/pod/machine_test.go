//go:build pod

package pod

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// machineScript is as initScript, but for what an operator installs: there is nothing in /usr/local/bin, and what is written to /etc is the
// machine's own. $2 is a directory for it.
const machineScript = privateScript + `mount -t tmpfs -o mode=755 none /usr/local/bin
mount -t tmpfs -o mode=755 none /var/log
mount -t tmpfs -o mode=755 none "$2"
mkdir "$2/upper" "$2/work"
mount -t overlay none /etc -o "lowerdir=/etc,upperdir=$2/upper,workdir=$2/work"
printf '127.0.0.1 localhost\n10.66.0.1 first\n' >/etc/hosts
` + systemdScript

// The page of virtual machines, on two machines: its blocks say on which one. It has at most twelve commands, and lasts at most a minute.
func TestPageOfVirtualMachines(t *testing.T) {
	const page = "docs/virtual-machines.md"
	needs(t, "useradd", "install", "curl")
	first, vm := lab.NewNetns(t, "first"), lab.NewNetns(t, "vm")
	first.Join("eth0", vm, "eth0")
	first.Address("eth0", "10.66.0.1/24")
	vm.Address("eth0", "10.66.0.2/24")
	program := answers(t, vm, "127.0.0.1:9001", "hello from vm\n")
	defer program.Close()

	units, tools := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(units, "test.target"):              "[Unit]\nDefaultDependencies=no\n",
		filepath.Join(units, agentUnit+".d", "own.conf"): "[Unit]\nDefaultDependencies=no\nWants=\nAfter=\n", // nothing else runs there
	} {
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	there := startInitBy(t, vm.Argv(), machineScript, units, t.TempDir())
	shells := map[string]*lab.Shell{"first": lab.StartShell(t, first.Argv())}
	// scp copies from the first machine's directory, as it does from a home directory.
	check(t, os.WriteFile(filepath.Join(tools, "scp"), []byte("#!/bin/bash\ncp \"${@/#first:/"+shells["first"].Home+"/}\"\n"), 0o755))
	shells["vm"] = lab.StartShell(t, append(vm.Argv(), "nsenter", "-t", fmt.Sprint(there.pid), "-m", "-p", "-C", "-u", "-i"),
		"PATH="+strings.Join([]string{tools, lab.Programs(), os.Getenv("PATH")}, ":"))
	check(t, os.Symlink(lab.Path("deploy"), filepath.Join(shells["vm"].Home, "deploy"))) // the checkout

	check(t, os.WriteFile(filepath.Join(shells["first"].Home, "api.yaml"), []byte(lab.Code(t, page, "yaml")[0]), 0o644))

	watch, commands := lab.StartStopwatch(), 0
	for _, b := range lab.BlocksOf(t, "docs/virtual-machines.md") {
		on, _, _ := strings.Cut(strings.TrimPrefix(b.Commands, "# on "), "\n")
		s := shells[on]
		if s == nil {
			t.Fatalf("%s:%d: on which machine? %q", page, b.Line, on)
		}
		s.Follow(page, b)
		commands += commandsIn(b.Commands)
	}
	watch.Within(t, time.Minute, "the page")
	t.Logf("%d commands in %s", commands, watch.Took())
	if commands > 12 {
		t.Errorf("the page has %d commands, want at most 12", commands)
	}
	if body, err := first.Get("http://10.66.0.2:8000/"); err == nil {
		t.Errorf("plain text is answered: %q", body)
	}
	there.must("is-enabled", agentUnit)
	there.must("stop", agentUnit)
}

// answers serves one text in a namespace.
func answers(t *testing.T, n *lab.Netns, address, text string) *http.Server {
	t.Helper()
	var l net.Listener
	l, err := n.Listen(lab.User{}, "tcp", address)
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })}
	go server.Serve(l)
	return server
}

// commandsIn counts the commands of a block: neither its comments, nor what a command reads, nor a command's further lines.
func commandsIn(block string) (n int) {
	reads, goesOn := false, false
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		switch {
		case reads:
			reads = line != "END"
		case goesOn || line == "" || strings.HasPrefix(line, "#"):
		default:
			n += 1 + strings.Count(line, "&& ")
			reads = strings.HasSuffix(line, "<<END")
		}
		goesOn = !reads && strings.HasSuffix(line, `\`)
	}
	return n
}
