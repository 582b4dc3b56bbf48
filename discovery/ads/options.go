package ads

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
)

// options returns gRPC options that detect a dead peer, allow Envoy's own keepalive, and have windows large enough for
// a whole first configuration.
func (l Limits) options(secure credentials.TransportCredentials) []grpc.ServerOption {
	alive := keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: idle}
	if l.MaxConnectionAge > 0 { // gRPC adds a jitter of a tenth
		alive.MaxConnectionAge, alive.MaxConnectionAgeGrace = l.MaxConnectionAge, ageGrace
	}
	return []grpc.ServerOption{
		grpc.Creds(secure),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(l.MaxRequest),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(l.StreamsPerConnection),
		experimental.BufferPool(buffers()),
		grpc.ConnectionTimeout(handshake),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(alive),
	}
}

// buffers returns a pool whose buffers have at most twice the length that is asked for, up to that of a frame. gRPC's
// own takes four times as much.
func buffers() mem.BufferPool {
	pool, err := mem.NewBinaryTieredBufferPool(8, 11, 12, 13, 14, 15, 20)
	if err != nil {
		return mem.DefaultBufferPool() // the exponents are constant, and valid
	}
	return pool
}

// maxHeaders is how many bytes the headers of a stream may have: a bearer token has two thousand.
const maxHeaders = 32 << 10
