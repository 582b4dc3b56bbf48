// Package mock is a registry in memory: two fixed services, hello and world, for experiments. It is also the shortest
// adapter that keeps the contract of a source, as an example for others (discovery/registry/README.md).
//
//	Registry ── Records(ctx, after) ──▶ Source.Run: difference to the last time ── groupOf(record) ──▶ Update
//
// All addresses are loopback addresses: hello is 127.1.0.1, its instances 127.1.1.1 (version v0) and 127.1.1.2 (v1); world
// is the same with 127.2. Port 80 is HTTP, served at 8080, and port 90 is TCP, served at 9090.
//
// The package does not retry and does not log: the server does both.
package mock
