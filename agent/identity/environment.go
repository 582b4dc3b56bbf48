package identity

// Environment is the environment of a process by name.
type Environment map[string]string
