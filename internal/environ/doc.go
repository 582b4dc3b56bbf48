// Package environ parses the environment of a process in the form of os.Environ. It never reads the environment itself:
// only commands do.
package environ
