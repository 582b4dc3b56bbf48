package identity

import "strings"

// Environment is the environment of a process by name.
type Environment map[string]string

// ParseEnvironment reads NAME=value entries, as os.Environ returns them. Of two entries for one name the last counts.
func ParseEnvironment(environ []string) Environment {
	env := Environment{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}
