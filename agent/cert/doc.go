// Package cert watches certificate files: their contents, and whether Envoy could use them.
//
//	tick, Recheck ─▶ read all files ─▶ Hash ──┐
//	                                └▶ Check ─┴▶ Observation, if it differs from the last one
//
// Hash and Check are functions of contents and a time. The loop waits for missing files and goes on after every fault. Its
// callers act on the observations, and notice changes: they send the ticks, and Recheck covers those that get lost.
package cert
