// Command peer is a client or a server of gRPC for Go that is configured by xDS: what ../python/peer.py is for gRPC's
// C core. Its server does without xDS where GRPC_XDS_BOOTSTRAP is not set. It does not judge what it sees.
package main
