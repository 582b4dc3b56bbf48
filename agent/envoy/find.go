package envoy

import (
	"errors"
	"os/exec"
)

// Find returns the path of an executable Envoy: the path itself, or what PATH has for a bare name.
func Find(binary string) (string, error) {
	path, err := exec.LookPath(binary)
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return "", lookup.Err // without exec's quoting of the name, which the caller says
	}
	return path, err
}
