//go:build pod

package pod

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// systemctl reload of the unit replaces the agent under its Envoy, with all that the unit takes away, and with the capability that TPROXY
// needs.
func TestReloadOfTheUnit(t *testing.T) {
	tproxy, err := os.ReadFile(lab.Path("deploy", "systemd", "pilotlight-agent.service.d", "tproxy.conf.example"))
	check(t, err)
	for _, test := range []struct{ name, dropIn, capabilities string }{
		{"as it is", "", "0000000000000000"},
		{"with TPROXY's capability", string(tproxy), "0000000000001000"},
	} {
		t.Run(test.name, func(t *testing.T) { reload(t, test.dropIn, test.capabilities) })
	}
}

// reloaded is the unit of the agent, under a systemd of its own.
type reloaded struct {
	inits
	programs string
	status   int // port
}

func startUnit(t *testing.T, dropIn string) reloaded {
	t.Helper()
	programs, units := t.TempDir(), t.TempDir()
	check(t, os.Chmod(programs, 0o755))
	r := reloaded{programs: programs}
	for name, path := range map[string]string{"agent": lab.Program("agent"), "envoy": lab.Envoy()} {
		r.install(t, name, path, "")
	}
	var err error
	r.status, err = lab.FreePort()
	check(t, err)
	listener, err := lab.FreePort()
	check(t, err)
	unit, err := os.ReadFile(lab.Path("deploy", "systemd", "pilotlight-agent.service"))
	check(t, err)
	for path, text := range map[string]string{
		filepath.Join(programs, "bootstrap.json"):          lab.StaticBootstrap(fmt.Sprintf("127.0.0.1:%d", listener), "127.0.0.1:1", 1),
		filepath.Join(programs, "passwd"):                  fmt.Sprintf("root:x:0:0::/:/bin/sh\nistio-proxy:x:%d:%d::/:/bin/false\n", proxyUID, proxyUID),
		filepath.Join(programs, "group"):                   fmt.Sprintf("root:x:0:\nistio-proxy:x:%d:\n", proxyUID),
		filepath.Join(units, "test.target"):                "[Unit]\nDefaultDependencies=no\n",
		filepath.Join(units, agentUnit):                    string(unit),
		filepath.Join(units, agentUnit+".d", "own.conf"):   dropIn,
		filepath.Join(units, agentUnit+".d", "place.conf"): fmt.Sprintf(place, r.status),
	} {
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	r.inits = startInit(t, units, programs)
	return r
}

const agentUnit = "pilotlight-agent.service"

// place has what differs from a machine: nothing else runs there, and other tests run beside it.
const place = `[Unit]
DefaultDependencies=no
Wants=
After=
[Service]
Environment="AGENT_FLAGS=--ip 127.0.0.1 --proxyAdminPort 0 --statusPort %d --customConfigFile /usr/local/bin/bootstrap.json"
`

// install puts a program into its place as a package manager does, with a tail that is not loaded.
func (r reloaded) install(t *testing.T, name, path, tail string) {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	place := filepath.Join(r.programs, name)
	check(t, os.WriteFile(place+"~", append(text, tail...), 0o755))
	check(t, os.Rename(place+"~", place))
}

// in runs a program in systemd's namespaces.
func (r reloaded) in(argv ...string) string {
	out, err := exec.Command("nsenter", append([]string{"-t", fmt.Sprint(r.pid), "-m", "-p"}, argv...)...).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func reload(t *testing.T, dropIn, capabilities string) {
	r := startUnit(t, dropIn)
	if out, err := r.control("start", agentUnit); err != nil {
		t.Fatalf("start: %v: %s\n%s", err, out, r.must("show", agentUnit))
	}
	agent, envoy := r.must("show", "-p", "MainPID", "--value", agentUnit), 0
	for n := range 4 {
		if n > 0 {
			r.install(t, "agent", lab.Program("agent"), fmt.Sprint("build ", n))
			r.must("reload", agentUnit)
		}
		text, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/status", r.status))
		check(t, err)
		var s struct {
			Ready    bool
			Upgrades struct{ Count int }
			Epochs   []struct{ Pid int }
		}
		check(t, json.Unmarshal([]byte(text), &s))
		if now := r.must("show", "-p", "MainPID", "--value", agentUnit); !s.Ready || s.Upgrades.Count != n || len(s.Epochs) != 1 || now != agent {
			t.Fatalf("after %d reloads: process %s, before %s: %s", n, now, agent, text)
		}
		if now := s.Epochs[0].Pid; envoy != 0 && now != envoy {
			t.Errorf("Envoy is process %d, was %d", now, envoy)
		}
		envoy = s.Epochs[0].Pid
		if image := strings.TrimSpace(r.in("tail", "-c", "7", "/proc/"+agent+"/exe")); n > 0 && image != fmt.Sprint("build ", n) {
			t.Errorf("after %d reloads the program ends with %q", n, image)
		}
		for _, pid := range []string{agent, fmt.Sprint(envoy)} {
			want := "CapEff:\t" + capabilities + "\nNoNewPrivs:\t1\n"
			if got := r.in("grep", "-E", "^(CapEff|NoNewPrivs)", "/proc/"+pid+"/status"); got != want {
				t.Errorf("process %s has %q, want %q", pid, got, want)
			}
		}
	}
	r.reloadHalf(t, agent, envoy)
	began := time.Now()
	r.must("stop", agentUnit)
	t.Logf("stopped in %s", time.Since(began))
	if result := r.must("show", "-p", "Result", "--value", agentUnit); result != "success" {
		t.Errorf("the unit's result is %s", result)
	}
}

// reloadHalf: half a program does not run. The reload fails, and all goes on.
func (r reloaded) reloadHalf(t *testing.T, agent string, envoy int) {
	t.Helper()
	half := filepath.Join(r.programs, "half")
	r.install(t, "half", lab.Program("agent"), "")
	check(t, os.Truncate(half, 1<<20))
	check(t, os.Rename(half, filepath.Join(r.programs, "agent")))
	if out, err := r.control("reload", agentUnit); err == nil {
		t.Errorf("half a program was taken: %s", out)
	}
	active, now := r.must("is-active", agentUnit), r.must("show", "-p", "MainPID", "--value", agentUnit)
	if active != "active" || now != agent || r.in("cat", fmt.Sprintf("/proc/%d/comm", envoy)) != "envoy\n" {
		t.Errorf("after half a program the unit is %s, process %s, before %s", active, now, agent)
	}
}
