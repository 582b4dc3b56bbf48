// Package cgroup reads what the kernel's control groups allow a process, and what they have counted of it: versions 1
// and 2, from the files of any root. It sets nothing.
package cgroup
