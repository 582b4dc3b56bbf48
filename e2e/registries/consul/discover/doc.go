// Package discover stands in for the module of its name, which finds the servers of a Consul cluster by the API of a
// cloud. The tests run one server, so it finds none, and the libraries of eight clouds need not be built. It refuses to ask
// anybody.
package discover
