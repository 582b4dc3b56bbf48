// Package connlimit decides which connection leaves a port that is full. It is the one policy of every port of both
// programs:
//
//	a newcomer comes to a full port ─▶ the sources with the most connections ─▶ the oldest that is not served
//	                                                                          └ none: see Served
//
// A newcomer is not refused for coming last: it may be a probe, an API server or a proxy, and those that fill the port
// may be silent. It counts for its source, so a source that takes every place makes room for others, and another one
// loses nothing.
//
// The package only decides: it holds no connection and knows no limit, which belong to the listener of each port.
package connlimit
