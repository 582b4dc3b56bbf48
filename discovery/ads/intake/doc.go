// Package intake bounds the memory of requests that are under way: from the announcement of their size to the stream that
// has read them. gRPC allocates what arrives, so a client that announces much, and holds the last byte back, costs as
// much as it has sent, on each of its streams.
//
//	bytes of a connection ── frames of HTTP/2 ── messages of gRPC ─▶ announced ─▶ reserved ─▶ complete ─▶ handled
//	                                                                  │ no room: the connection is not read
//	                                                                  └ for too long, or slow itself: it is closed
//
// The room has shares, for all clients and for each address. Small requests have a share that large ones cannot take,
// and large ones of clients that are not identified have the smallest.
//
// It reads the lengths of frames and messages only, and leaves their content to gRPC.
package intake
