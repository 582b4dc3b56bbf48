// Package store has the directory of an authority: its files under Istio's names, and join tokens.
//
//	empty directory ──▶ Open ──▶ a new root, written ──┐
//	all files       ──▶ Open ── read, judged ──────────┴──▶ ca.Authority
//	some files      ──▶ Open ──▶ an error that names them: a second root is never made
//	Rotate ──▶ rotation.json, *.next.pem ──▶ Step … Step ──▶ the files of the next root alone
//
// Processes share the directory: discovery and the commands for tokens and rotation hold its lock while they write, and while they read
// again what seemed incomplete. A file is written under another name, synced and renamed. It leaves the meaning of the files to package ca.
package store
