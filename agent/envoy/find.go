package envoy

import (
	"errors"
	"os/exec"
)

// Find returns the path of an executable Envoy: the path itself, or for a bare name the one in PATH.
func Find(binary string) (string, error) {
	path, err := exec.LookPath(binary)
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return "", lookup.Err // without the name, which the caller adds
	}
	return path, err
}
