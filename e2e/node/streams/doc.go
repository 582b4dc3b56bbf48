// Command streams serves what stays open for long: it sends each message of a gRPC stream, and of a WebSocket, back. At SIGTERM it
// says bye on each that is open, and ends when all are closed. It does not judge what its clients do.
package main
