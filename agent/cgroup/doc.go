// Package cgroup reads the limits that the kernel's control groups set for a process, and their counters of it: versions
// 1 and 2, from the files of any root. It sets no limit: it leaves that to the
// container runtime.
package cgroup
