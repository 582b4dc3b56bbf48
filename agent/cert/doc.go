// Package cert watches certificate files: their contents, and whether Envoy could use them.
//
//	tick, Recheck ─▶ read all files ─▶ Hash ──┐
//	                                └▶ Check ─┴▶ Observation, when it is not the last one
//
// Hash and Check are functions of contents and a time. The loop waits for files that are missing and goes on after
// every fault. It leaves to its callers what follows from an observation, and how a change is noticed: they send the
// ticks, and Recheck covers those that get lost.
package cert
