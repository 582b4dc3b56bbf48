//go:build pod

package pod

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// inits runs systemd as process one of namespaces of its own, with units, and with programs at /usr/local/bin. All of it ends with the test.
type inits struct {
	t   *testing.T
	pid int // of systemd
}

// initScript has the arguments units, programs, and the cgroup that systemd takes for the root. With systemd everything of it ends but the cgroup.
const initScript = privateScript + `mount --bind "$2" /usr/local/bin
for file in passwd group; do mount --bind "$2/$file" "/etc/$file"; done
` + systemdScript

const privateScript = `mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none /run
mkdir -p /run/systemd/system
cp -r "$1"/. /run/systemd/system/
mount -t tmpfs none /var/lib
`

const systemdScript = `umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$3"
echo $$ >"/sys/fs/cgroup/$3/cgroup.procs"
exec unshare --cgroup sh -ec 'umount /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
exec env container=docker /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no'`

// cleanScript removes the cgroups that systemd has made.
const cleanScript = `umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
find "/sys/fs/cgroup/$1" -depth -type d -exec rmdir {} +`

func startInit(t *testing.T, units, programs string) inits {
	t.Helper()
	return startInitBy(t, nil, initScript, units, programs)
}

// startInitBy starts it by a command that leads to another place, if there is one, and a script.
func startInitBy(t *testing.T, around []string, script, units, programs string) inits {
	t.Helper()
	needs(t, "/lib/systemd/systemd", "systemctl", "unshare", "nsenter", "mount", "umount", "find")
	group := filepath.Base(filepath.Dir(units)) // it has the name of the test and a number
	argv := append(around, "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--uts", "--ipc", "--propagation", "private",
		"sh", "-ec", script, "sh", units, programs, group)
	cmd := exec.Command(argv[0], argv[1:]...)
	said := filepath.Join(t.TempDir(), "systemd")
	log, err := os.Create(said)
	check(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unshare takes systemd along, and the kernel the rest of its namespace
		_ = cmd.Wait()
		check(t, lab.Eventually(stopLimit, func() error {
			out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", cleanScript, "sh", group).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}))
	})
	i := inits{t: t}
	check(t, lab.Eventually(stopLimit, func() error {
		children := lab.Children(cmd.Process.Pid)
		if len(children) != 1 {
			return fmt.Errorf("unshare has children %v", children)
		}
		i.pid = children[0]
		if out, err := i.control("is-active", "test.target"); err != nil {
			text, _ := os.ReadFile(said)
			return fmt.Errorf("systemd: %w: %s: %s", err, out, text)
		}
		return nil
	}))
	return i
}

// control runs systemctl.
func (i inits) control(argv ...string) (string, error) {
	argv = append([]string{"-t", fmt.Sprint(i.pid), "-m", "-p", "-C", "-u", "-i", "timeout", "30", "systemctl"}, argv...)
	out, err := exec.Command("nsenter", argv...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (i inits) must(argv ...string) string {
	i.t.Helper()
	out, err := i.control(argv...)
	if err != nil {
		i.t.Fatalf("systemctl %q: %v: %s", argv, err, out)
	}
	return out
}
