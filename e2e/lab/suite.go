package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// programsVariable holds the directory of the programs: for New, and for a test binary that starts itself again in a
// namespace of its own.
const programsVariable = "PILOTLIGHT_PROGRAMS"

// Suite describes the needs of a package of tests, beside agent, discovery and Envoy.
type Suite struct {
	Name     string       // of the package: "e2e/pod"
	Programs []string     // further programs to build: "./examples/bookinfo"
	Root     bool         // its tests run as root only
	Open     bool         // other users start the programs: these and Envoy are put where other users can read them
	Need     func() error // checks any other needs; nil for none
}

// Main is the body of a TestMain: it builds the programs, finds Envoy, runs the tests, and ends the process. What a
// machine has for a mesh of its own, files and variables that the programs read by default, is hidden from the tests.
func Main(m *testing.M, s Suite) { os.Exit(s.run(m)) }

func (s Suite) run(m *testing.M) int {
	again, code, err := hideDirectories()
	if again && err == nil {
		return code
	}
	done := func() {}
	if err == nil {
		done, err = s.prepare()
	}
	defer done()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.Name, err)
		return 1
	}
	return m.Run()
}

func (s Suite) prepare() (done func(), err error) {
	done = func() {}
	if os.Getenv(programsVariable) != "" {
		return done, nil
	}
	ForgetVariables()
	if s.Root && os.Getuid() != 0 {
		return done, errors.New("needs root, for network namespaces and rules: run it as root")
	}
	if s.Need != nil {
		if err := s.Need(); err != nil {
			return done, err
		}
	}
	dir, err := os.MkdirTemp("", "pilotlight-e2e-")
	if err != nil {
		return done, err
	}
	done = func() { os.RemoveAll(dir) }
	if err := Build(dir, append([]string{"./cmd/agent", "./cmd/discovery"}, s.Programs...)...); err != nil {
		return done, err
	}
	if err := s.placeEnvoy(dir); err != nil {
		return done, err
	}
	return done, os.Setenv(programsVariable, dir)
}

// placeEnvoy puts Envoy beside the programs, by a symbolic link. If other users start the programs it uses a hard link
// or a copy, since the project may be in a home directory that they cannot read.
func (s Suite) placeEnvoy(dir string) error {
	envoy, err := FindEnvoy()
	if err != nil {
		return err
	}
	if envoy, err = filepath.EvalSymlinks(envoy); err != nil {
		return err
	}
	path := filepath.Join(dir, "envoy")
	if !s.Open {
		return os.Symlink(envoy, path)
	}
	if err := place(envoy, path); err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o755), os.Chmod(dir, 0o755))
}

// New returns a lab with the programs of the suite, whose processes keep their files in dir.
func New(dir string) Lab { return Lab{Bin: Programs(), Envoy: Envoy(), Dir: dir} }

// Programs returns the directory of the programs that Main has built, and of envoy.
func Programs() string {
	dir := os.Getenv(programsVariable)
	if dir == "" {
		panic("no programs were built: TestMain must call lab.Main")
	}
	return dir
}

// Program returns the path of a program that Main has built: "agent".
func Program(name string) string { return filepath.Join(Programs(), name) }

// Envoy returns the path of Envoy.
func Envoy() string {
	path := Program("envoy")
	if target, err := os.Readlink(path); err == nil {
		return target
	}
	return path
}

// Build builds programs from this tree as they are shipped, and puts them into dir. The linked files are kept in run/e2e, so
// that only the first of several test binaries links them; a lock makes the others wait for it.
func Build(dir string, packages ...string) error { return BuildTagged(dir, "", packages...) }

// BuildTagged is Build with a further build tag.
func BuildTagged(dir, tag string, packages ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	kept := filepath.Join(root, "run", "e2e", tag)
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(root, "run", "e2e.lock"))
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	argv := []string{"build", "-trimpath", "-tags", "grpcnotrace," + tag, "-ldflags", "-s -w", "-o", kept + "/"}
	command := exec.Command("go", append(argv, packages...)...)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w:\n%s", err, output)
	}
	for _, name := range packages {
		name = filepath.Base(name)
		if err := place(filepath.Join(kept, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// place links a program to another path, or copies it where that is on another file system.
func place(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	if output, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, output)
	}
	return nil
}

// IstioModule returns the directory of the module of Istio that e2e/wire pins: its tests read Istio's own tables there.
func IstioModule(t testing.TB) string {
	t.Helper()
	list := exec.Command("go", "list", "-f", "{{.Module.Dir}}", "istio.io/istio/pilot/cmd/pilot-agent")
	list.Dir = Path("e2e", "wire", "istio")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Java is the beginning of a command that starts a small Java program, which leaves nothing in the machine's directory for temporary files.
func Java(t testing.TB) []string {
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.io.tmpdir=" + t.TempDir()}
}

// Selection is a row of the table that says which Pods get a sidecar.
type Selection struct {
	Namespace, Pod map[string]string // labels
	Injected       bool
}

// Selections reads that table: tests compare the selectors of the webhooks, the injector and a real API server with it.
func Selections() (out []Selection, err error) {
	path := Path("discovery", "inject", "testdata", "selection.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var pods []map[string]string
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		words := strings.Fields(strings.TrimPrefix(line, "#"))
		if strings.HasPrefix(line, "#") {
			pods = nil
			for _, word := range words { // the last line with # counts
				pods = append(pods, labelsOf(word))
			}
			continue
		}
		if len(words) != len(pods)+1 {
			return nil, fmt.Errorf("%s:%d: has %d words, want %d", path, n+1, len(words), len(pods)+1)
		}
		for i, word := range words[1:] {
			if word != "yes" && word != "no" {
				return nil, fmt.Errorf("%s:%d: is %q, want yes or no", path, n+1, word)
			}
			out = append(out, Selection{labelsOf(words[0]), pods[i], word == "yes"})
		}
	}
	if len(out) < 30 {
		return nil, fmt.Errorf("%s: has %d cases", path, len(out))
	}
	return out, nil
}

func labelsOf(word string) map[string]string {
	names := strings.NewReplacer("i=", "istio-injection=", "r=", "istio.io/rev=", "s=", "sidecar.istio.io/inject=")
	out := map[string]string{}
	for pair := range strings.SplitSeq(word, ",") {
		if name, value, found := strings.Cut(names.Replace(pair), "="); found {
			out[name] = value
		}
	}
	return out
}

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
