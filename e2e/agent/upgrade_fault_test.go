package agent

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An image that fails to take over gives the process back: the one before goes on, and says why. Envoy notices nothing.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	unfit := filepath.Join(t.TempDir(), "unfit")
	build := exec.Command("go", "build", "-o", unfit, "./testdata/unfit")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := startStandalone(t)
	load, before := s.lightLoad(), s.vitals()
	for range 3 {
		if err := s.upgrade(unfit); err == nil || !strings.Contains(err.Error(), "the agent goes on as it was: unfit by nature") {
			t.Errorf("got %v", err)
		}
	}
	after := s.vitals()
	if after.image != before.image || after.envoy != before.envoy || after.restart != before.restart || after.children != 1 {
		t.Errorf("it goes on with %+v, before %+v", after, before)
	}
	s.must(s.upgrade(images(t)[0])) // it can still be upgraded
	s.handOver(2)
	lab.Unharmed(t, load)
}

// What another program puts into the agent's variable is refused, and nothing is started.
func TestUpgradeOfNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"x", "3,4", "0", "1,1,15,"} {
		process, err := lab.Start(lab.Spec{
			Name: "agent", Dir: t.TempDir(), Env: []string{"PILOTLIGHT_ADOPT=" + value},
			Argv: []string{
				lab.Program("agent"), "proxy", "--serviceregistry", "Other", "--ip", "127.0.0.1", "--binaryPath", lab.Envoy(),
				"--configPath", t.TempDir(), "--proxyAdminPort", "0", "--statusPort", "0",
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		code, err := process.Wait(lab.StopLimit)
		if err != nil || code <= 0 || !strings.Contains(process.Log(), "$PILOTLIGHT_ADOPT") || strings.Contains(process.Log(), "Envoy started") {
			t.Errorf("%q: exit status %d, %v:\n%s", value, code, err, process.Log())
		}
	}
}

// While the files of its certificate are broken, an upgraded agent serves the one that it has: to this Envoy, and to the next.
func TestUpgradeWithBrokenCertificates(t *testing.T) {
	t.Parallel()
	p := startCertified(t, 1001)
	p.clusters(p.good)
	p.listeners(withAgentSecrets(tcpListener("l", p.inbound[0], "good")))
	p.presents(1001)
	entries, err := filepath.Glob(filepath.Join(p.certs, "*.pem"))
	p.must(err)
	for _, path := range entries {
		p.must(os.Remove(path))
		p.must(os.WriteFile(path, []byte("broken"), 0o600))
	}
	p.Signal(syscall.SIGUSR2)
	p.must(lab.Eventually(upgradeLimit, func() error {
		text, err := lab.Get("http://" + p.status + "/status")
		if err == nil && !strings.Contains(text, `"count": 1`) {
			err = fmt.Errorf("not upgraded: %s", text)
		}
		return err
	}))
	p.presents(1001)
	pid, err := p.Envoy()
	p.must(err)
	p.must(syscall.Kill(pid, syscall.SIGKILL))
	p.must(lab.Eventually(lab.StopLimit, func() error {
		if now, err := p.Envoy(); err != nil || now == pid {
			return fmt.Errorf("process %d, %w", now, err)
		}
		return nil
	}))
	p.presents(1001)
}

// While discovery is away, an upgraded agent remembers what Envoy has, for this Envoy and for the next.
func TestUpgradeWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	o := startOutage(t, newWorld(t))
	upgrade := func(count int) {
		t.Helper()
		o.agent.Signal(syscall.SIGUSR2)
		o.says("/status", fmt.Sprintf(`"count": %d`, count))
		o.answers("one")
	}
	upgrade(1)
	o.leave()
	upgrade(2)
	o.crash()
	upgrade(3)
	o.Check(o.Discovery.Restart())
	o.says("/healthz/ready", "ready")
	upgrade(4)
}

// Lines that nobody had read when the agent was replaced are counted, and the next image tells how many.
func TestUpgradeWhileNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	read, write := unreadPipe(t)
	s.stderr = write
	s.launch("--proxyLogLevel", "debug")
	s.must(s.awaitRevision(1, startLimit))
	s.must(lab.Eventually(lab.StopLimit, func() error {
		for range 20 {
			if _, err := lab.Get("http://" + s.address); err != nil {
				return err
			}
		}
		return s.droppedLines()
	}))
	before := s.vitals()
	s.must(s.upgrade(images(t)[0]))
	if after := s.vitals(); after.envoy != before.envoy {
		t.Errorf("Envoy is process %d, was %d", after.envoy, before.envoy)
	}
	s.must(s.droppedLines())
	told := make(chan string, 1)
	go firstLine(read, "lines dropped: nobody read them", told)
	line := <-told
	go io.Copy(io.Discard, read)
	_, after, _ := strings.Cut(line, "stream=stderr lines=")
	if n, err := strconv.Atoi(strings.TrimSpace(after)); err != nil || n < 1000 {
		t.Errorf("the next image tells %q, want more than a thousand lines, those that were not dropped yet among them", line)
	}
}

// A line that Envoy has begun before an upgrade and ends after it is one line of the log.
func TestUpgradeInTheMiddleOfALine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary := filepath.Join(dir, "envoy")
	s := newStandalone(t)
	s.must(os.WriteFile(binary, fmt.Appendf(nil, `#!/bin/sh
cd %s
await() { for i in $(seq 900); do [ ! -e $1 ] || break; sleep .1; done; }
speak() { await begin; printf "begun before $1"; touch begun.$1; await end; echo " ended after"; }
if [ "$1" = --config-path ]; then speak stdout & speak stderr >&2 & fi
exec %s "$@"
`, dir, lab.Envoy()), 0o755))
	touch := func(name string) { s.must(os.WriteFile(filepath.Join(dir, name), nil, 0o644)) }
	s.launch("--binaryPath", binary)
	s.must(s.awaitRevision(1, startLimit))
	s.must(s.awaitAlone(startLimit)) // Envoy may answer before the agent has seen it
	before := s.vitals()
	touch("begin")
	for _, stream := range []string{"stdout", "stderr"} {
		s.must(lab.Eventually(lab.StopLimit, func() error {
			_, err := os.Stat(filepath.Join(dir, "begun."+stream))
			return err
		}))
	}
	s.must(s.upgrade(images(t)[0]))
	s.upgraded(1)
	if strings.Contains(s.Log(), "begun before") {
		t.Error("half a line is in the log")
	}
	touch("end")
	s.must(s.AwaitLog("begun before stdout ended after"))
	s.must(s.AwaitLog("begun before stderr ended after"))
	if after := s.vitals(); after.envoy != before.envoy {
		t.Errorf("Envoy is process %d, was %d", after.envoy, before.envoy)
	}
}
