// Package cgroup reads the limits and counters of a process's control groups, versions 1 and 2, from the files below
// any root. It does not set limits: the container runtime does.
package cgroup
