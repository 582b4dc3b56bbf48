// Package issuer lets an authority know the tokens (JWT) of issuers whose keys are in files.
//
//	issuers.yaml ─▶ Read ─▶ Issuer: name, audiences, claims ─▶ identity ──┐
//	jwksFile     ─▶ readKeys ─▶ keys; the last good ones stay             ├─▶ judge ─▶ ca.Identity
//	token        ─▶ algorithm and key, signature, times, audience, claims ┘
//
// A token chooses its issuer by iss, and with it the keys by which it must be signed. Algorithms are those of public keys, and each
// fits one type of key. It does not fetch a key set, and leaves the watch of files to its caller, and limits of callers to package server.
package issuer
