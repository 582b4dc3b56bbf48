// Package cert watches certificate files: their contents, and whether Envoy could use them.
//
//	tick, Recheck ─▶ read all files ─▶ Hash ──┐
//	                                └▶ Check ─┴▶ Observation, if it differs from the last one
//
// Hash and Check are functions of contents and a time. The loop waits for missing files and goes on after every fault. The
// package does not act on an observation and does not watch files: its callers do. They send the ticks, and Recheck covers
// those that get lost.
package cert
