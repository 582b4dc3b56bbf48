// Package environ reads the environment of a process as os.Environ returns it. It never asks for the environment itself: only
// commands do.
package environ
