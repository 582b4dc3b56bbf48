// Package ca is a certificate authority for workloads.
//
//	files ──▶ Read ──▶ Authority ──┐
//	CSR ──▶ ReadRequest ──▶ Key ───┼──▶ Sign ──▶ Leaf: chain and roots, PEM
//	caller's proof ──▶ Identity ───┘
//	Rotation ── Step, at a time ──▶ Rotation: which root signs, and which are trusted
//
// An identity is made of names of Kubernetes, and never read from a request: of a request only its public key counts. All of
// it are functions of bytes and a time. The package does not know how callers prove an identity, except for join tokens,
// and leaves files and ports to others. It never logs, and no error holds a part of a key or a token.
package ca
