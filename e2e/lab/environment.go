package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// hidesVariable marks a test binary that was started again to hide the machine's directories.
const hidesVariable = "PILOTLIGHT_HIDES"

// machineDirectories are what the programs read by default, and a machine has for a mesh of its own.
func machineDirectories() []string {
	return []string{"/etc/certs", "/etc/istio", "/var/lib/pilotlight", "/run/secrets"}
}

// machineVariables begin the names of what the programs read of their environment.
func machineVariables() []string {
	return []string{
		"ENVOY_", "EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "HOST_IP", "INSTANCE_IP", "ISTIO_", "KUBECONFIG", "KUBERNETES_",
		"MINIMUM_DRAIN_DURATION", "NOTIFY_SOCKET", "OTEL_", "PILOTLIGHT_", "POD_", "PROXY_CONFIG", "SERVICE_ACCOUNT",
		"TRUST_DOMAIN", "WATCHDOG_",
	}
}

// ForgetVariables unsets the variables of the environment that the programs read, before tests start one.
func ForgetVariables() {
	for _, variable := range os.Environ() {
		begins := func(name string) bool { return strings.HasPrefix(variable, name) }
		if slices.ContainsFunc(machineVariables(), begins) {
			name, _, _ := strings.Cut(variable, "=")
			_ = os.Unsetenv(name) // a name of the environment is one
		}
	}
}

// hideDirectories has the tests run without the directories of the machine. Where it has some, the test binary starts
// again in a mount namespace: again is true then, and code is its exit status.
func hideDirectories() (again bool, code int, err error) {
	there := slices.DeleteFunc(machineDirectories(), hidden)
	switch {
	case os.Getenv(hidesVariable) != "":
		return false, 0, errors.Join(os.Unsetenv(hidesVariable), hide(there))
	case len(there) == 0:
		return false, 0, nil
	}
	code, err = startAgain()
	return true, code, err
}

// hidden reports whether a directory has nothing to read; one of /etc must not exist, because an agent distinguishes
// between an empty directory and none.
func hidden(dir string) bool {
	entries, err := os.ReadDir(dir)
	if strings.HasPrefix(dir, "/etc/") {
		return errors.Is(err, fs.ErrNotExist)
	}
	return len(entries) == 0
}

// hide empties directories, and removes those of /etc.
func hide(directories []string) error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	var names []string
	for _, dir := range directories {
		if name, ofEtc := strings.CutPrefix(dir, "/etc/"); ofEtc {
			names = append(names, name)
		} else if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return ReplaceEtc(names...)
}

// ReplaceEtc mounts another directory at /etc in the process's mount namespace, with all that is there except these names.
func ReplaceEtc(without ...string) error {
	etc, err := os.Open("/etc")
	if err != nil {
		return err
	}
	defer etc.Close()
	entries, err := etc.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/etc", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount another /etc: %w", err)
	}
	for _, e := range entries {
		if slices.Contains(without, e.Name()) {
			continue
		}
		if err := bring(e, fmt.Sprintf("/proc/self/fd/%d/%s", etc.Fd(), e.Name()), "/etc/"+e.Name()); err != nil {
			return fmt.Errorf("bring /etc/%s: %w", e.Name(), err)
		}
	}
	return nil
}

// bring makes an entry of a directory available at another path.
func bring(e os.DirEntry, from, to string) error {
	if e.Type()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	var err error
	if e.IsDir() {
		err = os.Mkdir(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644)
	}
	return errors.Join(err, unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""))
}

// startAgain runs the test binary in a mount namespace where it may mount. A user other than root stays that user in a
// user namespace.
func startAgain() (code int, err error) {
	runtime.LockOSThread() // the signal of the parent's death is of a thread
	defer runtime.UnlockOSThread()
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), hidesVariable+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if user, group := os.Getuid(), os.Getgid(); user != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: user, Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: group, HostID: group, Size: 1}}
		again.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	var ended *exec.ExitError
	if err := again.Run(); err != nil && !errors.As(err, &ended) {
		return 1, fmt.Errorf("hide %s in a mount namespace: %w", strings.Join(machineDirectories(), ", "), err)
	}
	return again.ProcessState.ExitCode(), nil
}
