// Package frame reads and writes gRPC's messages and protobuf's fields, as far as the agent's own xDS needs them.
//
//	HTTP/2 of net/http ── Read, Write ──▶ message ── Fields, Append ──▶ fields of bytes
//
// It links neither gRPC nor Envoy's protobufs, which would treble the agent's size: all methods are streams of one kind, and
// of their messages few fields count. It refuses compressed messages, and knows no field but those of bytes; others are skipped.
// https://protobuf.dev/programming-guides/encoding
package frame
