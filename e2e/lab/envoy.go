package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindEnvoy returns the real Envoy that tests use: $ENVOY, else bin/envoy of the project, else the one in PATH.
func FindEnvoy() (string, error) {
	if path := os.Getenv("ENVOY"); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	if path := filepath.Join(root, "bin", "envoy"); exec.Command(path, "--version").Run() == nil {
		return path, nil
	}
	path, err := exec.LookPath("envoy")
	if err != nil {
		return "", errors.New("no Envoy in $ENVOY, bin/envoy or PATH: run make setup")
	}
	return path, nil
}

// Root returns the project's directory, from any directory of it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("find go.mod: not in the project's tree")
}

// Path is a path in the project: Path("examples", "bookinfo").
func Path(elem ...string) string {
	root, err := Root()
	if err != nil {
		panic(err) // the test's working directory is always in the project
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// Validate runs the real Envoy's validation of a bootstrap. The error has Envoy's message.
func Validate(bootstrap []byte) error {
	_, err := Warnings(bootstrap)
	return err
}

// Warnings validates a bootstrap, and returns the warnings of the real Envoy, a line each.
func Warnings(bootstrap []byte) (string, error) {
	envoy, err := FindEnvoy()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "pilotlight-validate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bootstrap.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		return "", err
	}
	command := exec.Command(envoy, "--mode", "validate", "--log-level", "warning", "--config-path", path)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("envoy --mode validate: %w:\n%s%s", err, stderr.String(), stdout.String())
	}
	return stderr.String(), nil
}
