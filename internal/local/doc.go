// Package local decides whether an address, a host name or an HTTP request is of a program on this host. The agent and
// discovery call it before they show or change data that only such a program may access.
//
// Local are 127.0.0.1 and ::1 and nothing else. The rest of 127.0.0.0/8 and ::6 are not: Envoy forwards inbound traffic from
// other hosts with the source address 127.0.0.6 (::6).
//
// It does not distinguish users: every program on the host is local. It opens no sockets.
package local
