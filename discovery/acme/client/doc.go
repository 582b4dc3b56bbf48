// Package client gets certificates of Gateways from issuers by ACME, with golang.org/x/crypto/acme, and serves them as secrets.
//
//	meshes, connected gateways ─▶ Client.Run ─▶ acme.Wanted, acme.Record.Due ─▶ up to four tries beside each other
//	                                 │                                            │ order ▶ challenges ▶ gateways ACK ▶ accept ▶ certificate
//	   directory: a file for each ◀──┴──────────── saved before each ─────────────┘
//	   account and each set            Challenges ─▶ the mesh      Secrets ─▶ the gateways
//
// What was issued last is served until there is something better, and from the first moment of a start. No request goes to
// addresses inside without a flag, or over plain text. One process at a time asks: it has the lock of the directory. Several
// discoveries with directories of their own would each order, so there is to be one. The client does not decide what is needed, or when: package acme does.
package client
