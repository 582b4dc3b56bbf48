package agent

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const upgradeLimit = 30 * time.Second

// images returns two different builds of the agent.
func images(t *testing.T) [2]string {
	t.Helper()
	text, err := os.ReadFile(lab.Program("agent"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	paths := [2]string{filepath.Join(dir, "one"), filepath.Join(dir, "other")}
	for i, path := range paths {
		// What follows the sections of an ELF file is not loaded.
		if err := os.WriteFile(path, append(text[:len(text):len(text)], fmt.Sprint("build ", i)...), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// upgraded waits until as many images have taken over.
func (s *standalone) upgraded(count int) {
	s.t.Helper()
	s.must(s.awaitStatus(upgradeLimit, fmt.Sprintf("%d upgrades", count), func(a agentStatus) bool { return a.Upgrades.Count == count && a.Ready }))
}

// upgrade has the agent replaced by a binary.
func (s *standalone) upgrade(binary string) error {
	_, err := s.upgradeTo(binary)
	return err
}

// upgradeTo is upgrade, with what it prints.
func (s *standalone) upgradeTo(binary string) (string, error) {
	port := s.status[strings.LastIndexByte(s.status, ':')+1:]
	out, err := exec.Command(lab.Program("agent"), "upgrade", "--configPath", s.ConfigPath, "--statusPort", port, "--binary", binary).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// vitals are what an agent and its Envoy have of the kernel.
type vitals struct {
	image    string
	envoy    int
	restart  int
	files    []string // of the agent: number and what it leads to
	threads  int
	resident int64
	children int
}

func (s *standalone) vitals() (v vitals) {
	s.t.Helper()
	v.envoy = s.pid("serving")
	var err error
	v.image, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", s.Pid))
	s.must(err)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid))
	s.must(err)
	for _, e := range entries {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.Pid, e.Name())); err == nil {
			v.files = append(v.files, e.Name()+" "+to)
		}
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Pid))
	s.must(err)
	v.threads, v.resident, v.children = len(threads), lab.RSS(s.Pid), len(lab.Children(s.Pid))
	info, err := lab.Get("http://" + s.Admin + "/server_info")
	s.must(err)
	_, after, _ := strings.Cut(info, `"restart_epoch": `)
	v.restart, err = strconv.Atoi(after[:strings.IndexAny(after, ",\n")])
	s.must(err)
	return v
}

// SIGUSR2 upgrades to the binary at the agent's own path, and --upgradeOnChange does when that file changes.
func TestUpgradeTriggers(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--upgradeOnChange")
	load, two := s.lightLoad(), images(t)
	s.Signal(syscall.SIGUSR2)
	s.upgraded(1)
	s.must(s.upgrade(two[0]))
	text, err := os.ReadFile(two[1])
	s.must(err)
	s.must(os.WriteFile(two[0]+"~", text, 0o755))
	s.must(os.Rename(two[0]+"~", two[0]))
	s.upgraded(3)
	lab.Unharmed(t, load)
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.Pid))
	if s.must(err); strings.TrimSpace(string(name)) != "agent" {
		t.Errorf("the process is called %s, want agent", name)
	}
}

// An upgrade runs what the path leads to by which the agent was started, or that was asked for last: after a link was led elsewhere, and after
// the file was renamed. It says which version ran before, and whether it is the same file.
func TestUpgradeFollowsItsPath(t *testing.T) {
	t.Parallel()
	s, two := newStandalone(t), twoVersions(t)
	in, lead := two.in, two.lead
	s.bin = in("current")
	settings := in("settings.yaml")
	s.must(os.WriteFile(settings, []byte("proxyLogLevel: warning\n"), 0o600))
	s.launch("--config", settings)
	s.must(s.awaitRevision(1, startLimit))
	asks := func(binary, want string) {
		t.Helper()
		out, err := s.upgradeTo(binary)
		if s.must(err); !strings.Contains(out, "("+want) {
			t.Errorf("it prints %q, want %s", out, want)
		}
	}
	lead("v2")
	asks("", in("current", "agent")+"), before ")
	s.runs(in("v2", "agent"))
	asks("", in("current", "agent")+"), the same binary")
	lead("v1")
	s.Signal(syscall.SIGUSR2)
	s.upgraded(3)
	s.runs(in("v1", "agent"))
	s.must(os.Rename(in("v1", "agent"), in("v1", "agent.old")))
	s.must(os.Link(in("v2", "agent"), in("v1", "agent")))
	asks("", in("current", "agent")+"), before ")
	s.runs(in("v2", "agent"))
	asks(in("v1", "agent.old"), in("v1", "agent.old")+"), before ")
	s.runs(in("v1", "agent.old"))
	s.Signal(syscall.SIGUSR2)
	s.upgraded(6)
	s.runs(in("v1", "agent.old"))
	s.must(os.WriteFile(settings, []byte("proxyLogLevel: info\n"), 0o600))
	asks("", in("v1", "agent.old")+"), the same binary\nnot in force: arguments of Envoy (--log-level info, before warning): with its next start or handover\n")
	s.configure(2)
	s.must(s.awaitStatus(handoverLimit, "all settings in force", func(a agentStatus) bool { return len(a.Upgrades.NotInForce) == 0 }))
	s.must(os.WriteFile(settings, []byte("proxyLogLevl: warning\n"), 0o600))
	if err := s.upgrade(""); err == nil || !strings.Contains(err.Error(), "proxyLogLevl") || strings.Contains(err.Error(), "for usage") {
		t.Errorf("a typo in the settings: %v", err)
	}
}

// versions are two builds of the agent: v1/agent and v2/agent in a directory, where the link current leads to one of them.
type versions struct {
	t   *testing.T
	dir string
}

func twoVersions(t *testing.T) versions {
	t.Helper()
	v := versions{t, t.TempDir()}
	for i, path := range images(t) {
		version := v.in(fmt.Sprint("v", i+1))
		v.must(os.Mkdir(version, 0o755))
		v.must(os.Rename(path, filepath.Join(version, "agent")))
	}
	v.lead("v1")
	return v
}

func (v versions) in(names ...string) string {
	return filepath.Join(append([]string{v.dir}, names...)...)
}

func (v versions) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v versions) lead(to string) {
	v.t.Helper()
	v.must(os.Symlink(to, v.in("next")))
	v.must(os.Rename(v.in("next"), v.in("current")))
}

// runs checks that the agent is the program of a file.
func (s *standalone) runs(want string) {
	s.t.Helper()
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.Pid))
	s.must(err)
	if file, err := os.Stat(want); err != nil || !os.SameFile(running, file) {
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.Pid))
		s.t.Fatalf("%s runs, want %s (%v)", path, want, err)
	}
}

// A name that was found in PATH at the start, and a relative path, are the same place at each upgrade.
func TestUpgradeFollowsItsName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		call func(v versions) []string
	}{
		{"in PATH", func(v versions) []string {
			return []string{"env", "PATH=" + v.in("none") + ":" + v.in("current") + ":" + v.in("v1") + ":" + os.Getenv("PATH"), "agent"}
		}},
		{"a relative path", func(v versions) []string {
			here, err := os.Getwd()
			v.must(err)
			path, err := filepath.Rel(here, v.in("current", "agent"))
			v.must(err)
			return []string{path}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, two := newStandalone(t), twoVersions(t)
			s.call = test.call(two)
			s.launch()
			s.must(s.awaitRevision(1, startLimit))
			load := s.lightLoad()
			two.lead("v2")
			if out, err := s.upgradeTo(""); err != nil || !strings.Contains(out, "("+two.in("current", "agent")+")") {
				t.Errorf("it prints %q, %v", out, err)
			}
			s.runs(two.in("v2", "agent"))
			two.lead("v1")
			s.Signal(syscall.SIGUSR2)
			s.upgraded(2)
			s.runs(two.in("v1", "agent"))
			lab.Unharmed(t, load)
		})
	}
}

// However many SIGUSR2 come, neither the agent nor Envoy ends by one.
func TestUpgradeAtManySignals(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	load, before := s.lightLoad(), s.pid("serving")
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range 1000 {
		<-ticker.C
		s.Signal(syscall.SIGUSR2)
	}
	s.must(s.awaitStatus(upgradeLimit, "an upgrade", func(a agentStatus) bool { return a.Upgrades.Count > 0 && a.Upgrades.Pending == "" && a.Ready }))
	if after := s.pid("serving"); after != before {
		t.Errorf("Envoy %d serves, was %d", after, before)
	}
	lab.Unharmed(t, load)
	// One may follow that a signal asked for during the last one; in its first milliseconds, TERM would end the agent without order.
	s.must(lab.Eventually(upgradeLimit, func() error {
		before, err := s.ask()
		if err != nil {
			return err
		}
		<-time.After(time.Second)
		after, err := s.ask()
		if err == nil && (after.Upgrades.Count != before.Upgrades.Count || after.Upgrades.Pending != "") {
			err = fmt.Errorf("upgrades go on: %+v, then %+v", before.Upgrades, after.Upgrades)
		}
		return err
	}))
}

// While a handover is under way an upgrade waits; once a stop has begun there is none.
func TestUpgradeWaits(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	load := s.lightLoad()
	kept, err := net.Dial("tcp", s.address)
	s.must(err)
	defer kept.Close()
	s.configure(2)
	s.must(s.awaitStatus(handoverLimit, "a handover", func(a agentStatus) bool { return len(a.Epochs) == 2 }))
	s.Signal(syscall.SIGUSR2)
	s.must(s.awaitStatus(handoverLimit, "an upgrade that waits", func(a agentStatus) bool { return a.Upgrades.Pending != "" || a.Upgrades.Count == 1 }))
	s.upgraded(1)
	a, err := s.ask()
	s.must(err)
	if len(a.Epochs) != 1 || a.Counts["handed over to a newcomer"] != 1 {
		t.Errorf("it goes on with %+v", a)
	}
	s.must(s.awaitRevision(2, time.Second))
	lab.Unharmed(t, load)
}

// A change that comes just before an upgrade is in force after it.
func TestUpgradeWithAChangeThatWaits(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	load := s.lightLoad()
	for revision := 2; revision < 5; revision++ {
		s.configure(revision)
		s.Signal(syscall.SIGUSR2)
		s.must(s.awaitRevision(revision, handoverLimit))
		s.must(s.awaitAlone(handoverLimit))
	}
	lab.Unharmed(t, load)
}

// What was told to the agent stays told: it is drained after an upgrade as before, and TERM during one is heard.
func TestUpgradeKeepsWhatWasTold(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	port := s.status[strings.LastIndexByte(s.status, ':')+1:]
	s.must(s.post(port, "/drain"))
	s.Signal(syscall.SIGUSR2)
	s.must(s.awaitStatus(upgradeLimit, "an upgrade", func(a agentStatus) bool { return a.Upgrades.Count == 1 }))
	if a, err := s.ask(); err != nil || a.Ready || !a.Drained {
		t.Errorf("it tells %+v, %v, want it drained", a, err)
	}
	s.must(s.post(port, "/undrain"))
	s.must(s.awaitStatus(handoverLimit, "an agent that is ready", func(a agentStatus) bool { return a.Ready && len(a.Epochs) == 1 }))
}

// A command at any moment of an upgrade is carried out, by the one image or the other.
func TestUpgradeAndDrain(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--handover", "side-by-side") // after a hot one an upgrade waits until parentShutdownDuration is over
	port := s.status[strings.LastIndexByte(s.status, ':')+1:]
	for i, delay := range delays {
		s.Signal(syscall.SIGUSR2)
		<-time.After(delay)
		s.must(s.post(port, "/drain"))
		s.must(s.awaitStatus(upgradeLimit, "a drain under another image", func(a agentStatus) bool { return a.Upgrades.Count == i+1 && a.Drained && !a.Ready }))
		s.must(s.post(port, "/undrain"))
		s.must(s.awaitStatus(handoverLimit, "an agent that is ready", func(a agentStatus) bool { return a.Ready && !a.Drained && len(a.Epochs) == 1 }))
	}
}

func (s *standalone) post(port, path string) error {
	response, err := http.Post("http://127.0.0.1:"+port+path, "", nil)
	if err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, response.Status)
		}
	}
	return err
}

// TERM at any moment of an upgrade ends the agent and its Envoy: in order, but for the milliseconds in which Go's runtime starts.
func TestUpgradeAndStop(t *testing.T) {
	t.Parallel()
	for _, delay := range delays {
		t.Run(delay.String(), func(t *testing.T) {
			s := startStandalone(t)
			envoy := s.pid("serving")
			s.Signal(syscall.SIGUSR2)
			<-time.After(delay)
			s.Signal(syscall.SIGTERM)
			code, err := s.Wait(lab.StopLimit)
			s.must(err)
			t.Logf("exit status %d", code)
			s.must(gone(lab.StopLimit, envoy))
			if left := leftovers(t, s.ConfigPath); len(left) > 0 && code == 0 {
				t.Errorf("left in configPath: %v", left)
			}
		})
	}
}

// delays reach the steps of an upgrade: the question to the new image, the end of the old one, execve, the start of the new one.
var delays = []time.Duration{
	0, 4 * time.Millisecond, 8 * time.Millisecond, 12 * time.Millisecond, 16 * time.Millisecond, 20 * time.Millisecond, 24 * time.Millisecond,
	28 * time.Millisecond, 32 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond,
}

// An agent that is killed at any moment of an upgrade leaves no Envoy behind, and the next one starts.
func TestUpgradeAndKill(t *testing.T) {
	t.Parallel()
	for _, delay := range delays {
		t.Run(delay.String(), func(t *testing.T) {
			s := startStandalone(t)
			envoy := s.pid("serving")
			s.Signal(syscall.SIGUSR2)
			<-time.After(delay)
			s.Signal(syscall.SIGKILL)
			_, err := s.Wait(lab.StopLimit)
			s.must(err)
			s.must(gone(lab.StopLimit, envoy))
			next := *s
			next.launchIn(s.Sidecar)
			next.must(next.awaitRevision(1, startLimit))
		})
	}
}

// An Envoy that ends during an upgrade is replaced.
func TestUpgradeAndCrash(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	for i := range 4 {
		envoy := s.pid("serving")
		s.Signal(syscall.SIGUSR2)
		<-time.After(delays[2+2*i])
		_ = syscall.Kill(envoy, syscall.SIGKILL)
		s.must(s.awaitStatus(upgradeLimit, "another Envoy under another image", func(a agentStatus) bool {
			return a.Upgrades.Count == i+1 && a.Ready && a.servedByAnother(envoy)
		}))
		if a, err := s.ask(); err != nil || a.Counts["Envoy ended unasked"] != i+1 || a.Counts["starting Envoy"] != i+2 {
			t.Errorf("it tells %+v, %v", a, err)
		}
	}
}

// Where others may write to configPath, paths lead through the slot's descriptor: it stays the same.
func TestUpgradeInAPrivateSlot(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	dir := lab.ShortDir(t)
	s.must(os.Mkdir(filepath.Join(dir, "standalone"), 0o777))
	s.must(os.Chmod(filepath.Join(dir, "standalone"), 0o777))
	s.must(os.Chmod(dir, 0o755)) // others get there
	s.launchAt(dir)
	s.must(s.awaitRevision(1, startLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	load := s.lightLoad()
	for i := range 3 {
		s.Signal(syscall.SIGUSR2)
		s.upgraded(i + 1)
	}
	s.handOver(2)
	s.Signal(syscall.SIGUSR2)
	s.upgraded(4)
	lab.Unharmed(t, load)
	if !strings.Contains(s.Log(), "private-0") {
		t.Errorf("the slot is not private:\n%s", s.Log())
	}
}
