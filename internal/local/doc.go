// Package local says whether an address, a host name or an HTTP request is of a program on this host. Both halves ask it
// before they show or change what only such a program may.
//
// Local is 127.0.0.1 and ::1 and nothing else. The rest of 127.0.0.0/8 and ::6 are not: Envoy gives traffic that it
// passes in from outside the source address 127.0.0.6 (::6), so those addresses are how a stranger looks from inside.
//
// It does not know users: every program on the host is local. It opens no sockets.
package local
