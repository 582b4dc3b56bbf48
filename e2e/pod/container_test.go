//go:build pod

package pod

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// container is an image that a real runtime runs as a pod does: namespaces of its own but for the pod's network, a
// read-only root, limits.
type container struct {
	*lab.Process
	t     *testing.T
	id    string
	state string // the runtime's directory
	dir   string // bundle
}

// limits of a container.
type limits struct {
	user         int
	capabilities []string
	shm          string // size of /dev/shm, 64k
	memory       int64  // bytes, 0 for none
	cpus         float64
	mounts       []map[string]any
	env          []string
}

type object = map[string]any

// run starts a container of the image in the mesh's namespace; argv takes the place of the image's entry point.
func (m *mesh) run(n *lab.Netns, name string, i *image, l limits, argv ...string) *container {
	m.t.Helper()
	needs(m.t, "runc")
	c := &container{t: m.t, id: n.Name + "-" + name, state: filepath.Join(m.dir, "runc"), dir: filepath.Join(m.dir, name)}
	check(m.t, os.MkdirAll(c.dir, 0o755))
	capabilities := append([]string{}, l.capabilities...)
	mounts := append([]object{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755", "size=64k"}},
		{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": []string{
			"nosuid", "noexec", "nodev",
			"mode=1777", "size=" + l.shm,
		}},
		{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": []string{
			"nosuid", "noexec",
			"nodev", "ro",
		}},
		{"destination": "/etc/istio/proxy", "type": "tmpfs", "source": "tmpfs", "options": []string{
			"nosuid", "mode=700",
			"uid=1337", "gid=1337", "size=4m",
		}},
	}, l.mounts...)
	resources := object{"cpu": object{"quota": int64(l.cpus * 100_000), "period": 100_000}}
	if l.memory > 0 {
		resources["memory"] = object{"limit": l.memory}
	}
	config := object{
		"ociVersion": "1.0.2",
		"process": object{
			"user": object{"uid": l.user, "gid": l.user}, "args": argv, "cwd": "/",
			"env": append([]string{"PATH=/usr/local/bin:/usr/sbin:/bin"}, l.env...),
			"capabilities": object{
				"bounding": capabilities, "effective": capabilities, "permitted": capabilities, "inheritable": capabilities,
				"ambient": capabilities,
			},
			"noNewPrivileges": true,
		},
		"root": object{"path": i.root, "readonly": true}, "hostname": name, "mounts": mounts,
		"linux": object{
			"cgroupsPath": "/" + c.id, "resources": resources,
			"namespaces": []object{
				{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {
					"type": "network",
					"path": "/run/netns/" + n.Name,
				},
			},
		},
	}
	data, err := json.Marshal(config)
	check(m.t, err)
	check(m.t, os.WriteFile(filepath.Join(c.dir, "config.json"), data, 0o600))
	c.Process, err = lab.Start(lab.Spec{Name: name, Dir: m.dir, Argv: []string{
		"runc", "--root", c.state, "run",
		"--bundle", c.dir, c.id,
	}})
	check(m.t, err)
	m.t.Cleanup(func() {
		_ = c.runc("delete", "--force", c.id).Run()
		c.Stop(stopLimit)
		if m.t.Failed() {
			m.t.Logf("%s:\n%.8000s", name, c.Log())
		}
	})
	return c
}

func (c *container) runc(argv ...string) *exec.Cmd {
	return exec.Command("runc", append([]string{"--root", c.state}, argv...)...)
}

// pid is process one, as seen from outside.
func (c *container) pid() (int, error) {
	output, err := c.runc("state", c.id).Output()
	if err != nil {
		return 0, err
	}
	var state struct{ Pid int }
	if err := json.Unmarshal(output, &state); err != nil {
		return 0, err
	}
	if state.Pid == 0 {
		return 0, fmt.Errorf("%s has no process: %s", c.id, output)
	}
	return state.Pid, nil
}

// exec runs a command in the container, as its user.
func (c *container) exec(argv ...string) (string, error) {
	output, err := c.runc(append([]string{"exec", c.id}, argv...)...).CombinedOutput()
	return string(output), err
}

// status reads a field of /proc/PID/status.
func status(pid int, field string) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// threads of Envoy that carry traffic.
func workers(pid int) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	n := 0
	for _, path := range tasks {
		name, _ := os.ReadFile(path)
		if _, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(string(name)), "wrk:worker_")); err == nil {
			n++
		}
	}
	return n
}
