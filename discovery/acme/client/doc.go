// Package client gets certificates of Gateways from issuers by ACME, with golang.org/x/crypto/acme, and serves them as secrets.
//
//	meshes, connected gateways ─▶ Client.Run ─▶ acme.Wanted, acme.Record.Due ─▶ up to four tries beside each other
//	                                 │                                            │ order ▶ challenges ▶ gateways ACK ▶ accept ▶ certificate
//	   Store: a directory, or what ◀─┴──────────── saved before each ─────────────┘
//	   replicas share                  Challenges ─▶ the mesh      Secrets ─▶ the gateways
//
// What was issued last is served until there is something better, and from the first moment of a start. No request goes to
// addresses inside without a flag, or over plain text. One process at a time asks: it has the lock of the directory, or leads the replicas, which
// hear from each other what their gateways answer. The client does not decide what is needed, or when: package acme does.
package client
