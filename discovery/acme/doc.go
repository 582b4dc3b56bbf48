// Package acme decides which certificates gateways need from issuers by ACME, and when each is asked for. It is pure.
//
//	Mesh, connected gateways ──▶ Wanted ──▶ sets: issuer, hosts, who gets the certificate, what is missing
//	a set's Record, a time   ──▶ Due ──▶ Begin ─▶ (the conversation: package client) ─▶ Issued, or Failed
//
//	(none) ─▶ waits for port 80 ─▶ tried ─▶ ordered ─▶ shown ─▶ accepted ─▶ held ─┐
//	            ▲                    └─────── refused, away, 429 ──▶ later         │
//	            └──────────── a third of the life is left ◀────────────────────────┘
//
// A set is of one namespace of gateways: their answers prove a host for certificates that stay in that namespace, so no Gateway
// takes a certificate of a host that another namespace's gateways serve. A Record is kept before each request that costs a limit
// of the issuer, so a crash counts as a try. The package does not read files or send requests: package client does.
package acme
