package envoy

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/agent/procnet"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestHeirClearsUp(t *testing.T) {
	configPath, family, unstarted, foreign := t.TempDir(), newBaseID(t), newBaseID(t), newBaseID(t)
	recorded, reaped := sleeper(t)
	other, _ := sleeper(t)
	reused, _ := sleeper(t)

	s := claim(t, configPath)
	must(t, s.Starting(family))
	must(t, s.Started(recorded, family))
	must(t, syscall.Kill(recorded, syscall.SIGSTOP))
	must(t, s.Starting(unstarted))
	must(t, s.change(func(r *record) { // a pid that came again
		r.Children = append(r.Children, child{Pid: reused, Start: 1}, child{Pid: os.Getpid()}, child{Pid: 1})
	}))
	for _, f := range []hotrestart.BaseID{family, unstarted, foreign} {
		touch(t, f.Segment())
	}
	stale := []string{
		"envoy-rev0.json", "envoy-rev12.json", "envoy-rev0.yaml", "envoy-rev1.yml", "admin-rev3.sock", ".envoy-1234567",
		"agent.sock", "sds.sock", "agent-ABCDEFGHIJKLMNOPQRSTUVWXYZ.sock", "sds-ABCDEFGHIJKLMNOPQRSTUVWXYZ.sock",
		"admin-rev3-ABCDEFGHIJKLMNOPQRSTUVWXYZ.sock", "hot-ABCDEFGHIJKLMNOPQRSTUVWXYZ_udp_parent_12345671",
		"hot-ABCDEFGHIJKLMNOPQRSTUVWXYZ_new_parent_12345671",
		"envoy-trial.json", "envoy-trial.yaml", "admin-trial-ABCDEFGHIJKLMNOPQRSTUVWXYZ.sock", "ads-ABCDEFGHIJKLMNOPQRSTUVWXYZ.sock",
		"envoy-check.json", "envoy-check-17.yaml", "sds-certificate.json", "sds-roots.json",
		"hot_parent_12345671", "hot_child_12345671", "hot_udp_parent_12345671", "hot_udp_child_12345671", "hot_new_parent_12345670",
	}
	kept := []string{
		"agent.lock", "custom.json", "envoy-rev.json", "envoy-rev0.json.bak", "my-envoy-rev0.json", "admin-rev1-x.sock",
		".envoy-mine", "flight", "agent-mine.sock", "hot-mine_parent_12345671", "hot_parent", "sds-mine.json", "envoy-checked.json", "ads.sock", "envoy-trial.txt",
	}
	for _, name := range append(stale, kept[1:]...) {
		touch(t, filepath.Join(configPath, name))
	}
	s.die()

	heir := claim(t, configPath)
	<-reaped
	if !alive(other) || !alive(reused) {
		t.Error("a process that is not on record was killed")
	}
	slices.Sort(kept)
	if got := names(t, configPath); !slices.Equal(got, kept) {
		t.Errorf("files:\n got %v\nwant %v", got, kept)
	}
	for f, want := range map[hotrestart.BaseID]bool{family: false, unstarted: false, foreign: true} {
		if taken, err := f.InUse(); taken != want || err != nil {
			t.Errorf("family %d: taken %t, %v; want %t", f, taken, err, want)
		}
	}
	if len(heir.record.Children) != 0 {
		t.Errorf("the heir's record: %+v, want no children", heir.record.Children)
	}
}

func TestNothingIsKilledAfterAReboot(t *testing.T) {
	configPath := t.TempDir()
	pid, _ := sleeper(t)
	s := claim(t, configPath)
	must(t, s.Started(pid, 0))
	must(t, s.change(func(r *record) { r.Boot = "another" }))
	s.die()
	claim(t, configPath)
	if !alive(pid) {
		t.Error("killed a process by the record of another boot")
	}
}

func TestClaimClearsOtherFreeSlots(t *testing.T) {
	configPath := t.TempDir()
	pid, reaped := sleeper(t)
	first, second, third := claim(t, configPath), claim(t, configPath), claim(t, configPath)
	must(t, second.Started(pid, 0))
	touch(t, filepath.Join(second.Dir(), "envoy-rev0.json"))
	second.die()
	first.die()
	claim(t, configPath)
	<-reaped
	if got := names(t, configPath); !slices.Equal(got, []string{"agent-2", "agent.lock"}) {
		t.Errorf("slots: %v, want the claimed one and %s, which is held", got, third.Dir())
	}
}

func TestReadRecord(t *testing.T) {
	long, short := record{Agent: 1, Boot: "b", Children: make([]child, 200)}, record{Agent: 2, Boot: "b"}
	file, err := os.Create(filepath.Join(t.TempDir(), lockName))
	must(t, err)
	defer file.Close()
	if _, found, err := readRecord(file); found || err != nil {
		t.Errorf("an empty file: found %t, %v; want neither", found, err)
	}
	for _, r := range []record{short, long, short} {
		must(t, r.write(file))
		file.Seek(0, 0)
		got, found, err := readRecord(file)
		if !found || err != nil || got.Agent != r.Agent || len(got.Children) != len(r.Children) {
			t.Errorf("read back: %+v, %t, %v; want %+v", got, found, err, r)
		}
	}
	if info, _ := file.Stat(); info.Size()%block != 0 {
		t.Errorf("a record of %d bytes, want whole blocks of %d", info.Size(), block)
	}
}

func TestClaimOverAnUnreadableRecordStarts(t *testing.T) {
	configPath := t.TempDir()
	must(t, os.WriteFile(filepath.Join(configPath, lockName), []byte(`{"agent": "x`), 0o600))
	must(t, claim(t, configPath).Release())
	empty(t, configPath)
}

func TestFullDiskDoesNotStopARecordedAgent(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	if err := (record{}).write(full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v, want no space left", err)
	}
}

// A stopped Envoy of a killed agent keeps its port and its family: only KILL ends it.
func TestRealFrozenEnvoyOfAKilledAgentIsCleared(t *testing.T) {
	configPath, family := t.TempDir(), newBaseID(t)
	s := claim(t, configPath)
	must(t, s.Starting(family))
	p := startEnvoy(t, family)
	must(t, s.Started(p.Pid, family))
	p.Signal(syscall.SIGSTOP)
	p.Signal(syscall.SIGTERM) // as the kernel sends when its agent dies: it stays pending
	await(t, "Envoy is stopped", func() bool { facts, err := procnet.ReadStat(p.Pid); return err == nil && facts.Stopped() })
	s.die()

	claim(t, configPath)
	if code, err := p.Wait(patient); err != nil || code != -1 {
		t.Errorf("%s: exit status %d, %v; want -1", p.Name, code, err)
	}
	if taken, err := family.InUse(); taken || err != nil {
		t.Errorf("its family: taken %t, %v; want it swept", taken, err)
	}
}

// startEnvoy starts a real Envoy of a family, which serves when startEnvoy returns.
func startEnvoy(t *testing.T, family hotrestart.BaseID) *lab.Process {
	t.Helper()
	binary, err := lab.FindEnvoy()
	must(t, err)
	dir := t.TempDir()
	admin := filepath.Join(dir, "admin.sock")
	bootstrap := filepath.Join(dir, "0.json")
	text := fmt.Sprintf(`{"node": {"id": "n", "cluster": "c"}, "admin": {"address": {"pipe": {"path": %q}}}}`, admin)
	must(t, os.WriteFile(bootstrap, []byte(text), 0o600))
	p, err := lab.Start(lab.Spec{Name: "envoy", Dir: dir, Argv: []string{
		binary, "--config-path", bootstrap, "--base-id", family.String(), "--concurrency", "1", "--log-level", "warning",
		"--socket-path", filepath.Join(dir, "hot"), "--socket-mode", "600",
	}})
	must(t, err)
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
	})
	await(t, "Envoy is live", func() bool {
		answer, err := lab.OverUnix(admin).Get("http://envoy/ready")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return p
}

// sleeper starts a child that ends only when it is killed. It reports when the child has been reaped.
func sleeper(t *testing.T) (pid int, reaped <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	must(t, cmd.Start())
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-done })
	return cmd.Process.Pid, done
}

func alive(pid int) bool {
	facts, err := procnet.ReadStat(pid)
	return err == nil && !facts.Ended()
}
