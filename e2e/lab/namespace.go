package lab

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace marks a test binary that was started again in a namespace of its own.
const inNamespace = "PILOTLIGHT_IN_NAMESPACE"

// InNetworkNamespace runs a test in a network namespace of its own, with loopback up, as its root: it starts the test
// binary again there. It needs no privilege where the kernel grants user namespaces.
func InNetworkNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET, func(t *testing.T) {
		loopbackUp(t)
		test(t)
	})
}

// InMountNamespace runs a test in a mount namespace of its own, so that no other process sees its mounts.
func InMountNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNS, func(t *testing.T) {
		privateMounts(t)
		test(t)
	})
}

// InMountAndNetworkNamespace is InMountNamespace and InNetworkNamespace in one.
func InMountAndNetworkNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS, func(t *testing.T) {
		privateMounts(t)
		loopbackUp(t)
		test(t)
	})
}

// InPodNetwork runs a test in mount and network namespaces of its own, where the addresses of 10.1.0.0/16 lead to loopback: an
// API server takes no loopback address as an endpoint.
func InPodNetwork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	InMountAndNetworkNamespace(t, func(t *testing.T) {
		if output, err := exec.Command("ip", "route", "add", "local", "10.1.0.0/16", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("lead addresses to loopback: %v: %s", err, output)
		}
		test(t)
	})
}

// InNodeNamespaces runs a test as process one of network, mount and process namespaces of its own, as root: all that it starts
// and mounts ends with it. Mounts are shared within, as a kubelet needs it.
func InNodeNamespaces(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS|syscall.CLONE_NEWPID, func(t *testing.T) {
		for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
			if err := unix.Mount("none", "/", "", unix.MS_REC|propagation, ""); err != nil {
				t.Fatalf("keep mounts in the namespace: %v", err)
			}
		}
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			t.Fatalf("mount the namespace's processes: %v", err)
		}
		loopbackUp(t)
		test(t)
	})
}

// MountTmpfs mounts a tmpfs, until the test ends: options such as "size=64k".
func MountTmpfs(t *testing.T, dir, options string, flags uintptr) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Fatalf("mount tmpfs at %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// Fill writes a file until its disk is full.
func Fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk of %s: %v", path, err)
	}
}

func inNamespaces(t *testing.T, namespaces uintptr, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		test(t)
		return
	}
	ours := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
	again := exec.Command("/proc/self/exe", append([]string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=" + flag.Lookup("test.timeout").Value.String()}, ours...)...)
	again.Env = append(os.Environ(), inNamespace+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	output, err := again.CombinedOutput()
	t.Logf("in namespaces of its own:\n%s", output)
	if err != nil {
		t.Errorf("in namespaces of its own: %v (not root? the kernel must grant user namespaces)", err)
	}
}

func privateMounts(t *testing.T) {
	t.Helper()
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("keep mounts private: %v", err)
	}
}

func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatalf("bring loopback up: %v", err)
	}
}

// WriteSysctl sets a kernel parameter of the test's network namespace: "net/ipv4/tcp_migrate_req".
func WriteSysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
		t.Fatalf("set %s: %v", name, err)
	}
}
