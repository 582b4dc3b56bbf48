package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
