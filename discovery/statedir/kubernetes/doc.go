// Package kubernetes keeps the last good forms of the broken objects of a cluster in a Secret, for replicas that start.
//
//	Read, of each replica, before it lists objects ◀── Secret ◀── Lead, of the leader ◀── Keep
//
// The package leaves to discovery which forms these are, and when they are used: docs/design/031-remember.md.
package kubernetes
