// Package cert watches certificate files: what they are, and whether Envoy could use them.
//
//	tick, Recheck ─▶ read all files ─▶ Hash ──┐
//	                                └▶ Check ─┴▶ Observation, when it is not the last one
//
// Hash and Check are functions of contents and a time. The loop waits for files that are missing and goes on after
// every fault. It refuses to decide what follows from an observation, and to know how a change is noticed: ticks come
// from outside, and Recheck covers those that get lost.
package cert
