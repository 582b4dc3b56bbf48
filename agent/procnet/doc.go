// Package procnet reads what the kernel shows of processes and their sockets: /proc, and sock_diag(7) where that exists.
//
//	Stat         a process's state, parent, start and memory
//	Connection   the socket of a TCP connection, found by both addresses
//	Listener     a listening TCP socket, with the process that holds its port or shares it
//	Tables       the sockets of a network namespace, among them the accepted ones
//
// The package only reads, and knows no Envoy: it judges, ends and connects to no process. A process of another user may be
// hidden, so a missing answer is an error or "another user's process", never a guess.
package procnet
