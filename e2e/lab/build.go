package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

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
