package ads

import (
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Limits bounds the cost of one client, the durations, and the data that a client may see. Sizes are in bytes.
type Limits struct {
	Connections          int           // open at once, of all clients; 0 for any number
	MaxRequest           int           // of one request
	StreamsPerConnection uint32        // open at once
	StreamsPerSecond     float64       // new ones, of all clients; 0 for any number
	ViewsPerIdentity     int           // different views of one certificate, or of one host in plaintext; 0 for any number
	SendTimeout          time.Duration // the connection of a client that leaves a response unanswered for longer is closed
	MaxConnectionAge     time.Duration // after this time a client is asked to reconnect, maybe to another replica; 0 for never
	Shutdown             time.Duration // how long a stop may take
	Wipe                 time.Duration // how long a client that comes back keeps its clusters if most of them are gone; 0 for not at all
	PlaintextSecrets     bool          // programs on this host get secrets without TLS too
	ExposeObjects        bool          // programs on other hosts get configuration objects without TLS too
}

// DefaultLimits fit a mesh of ten thousand services.
func DefaultLimits() Limits {
	return Limits{
		MaxRequest:           4 << 20,
		StreamsPerConnection: 16,
		StreamsPerSecond:     0,
		ViewsPerIdentity:     256,
		SendTimeout:          time.Minute,
		Shutdown:             10 * time.Second,
	}
}

const (
	window    = 1 << 20          // bytes in flight, of a stream and of a connection
	ageGrace  = 10 * time.Second // between asking a client to leave and closing its connection
	idle      = 5 * time.Minute  // a connection without a stream is closed after it
	handshake = 10 * time.Second // a connection without a finished handshake is closed after it
	shedEvery = time.Minute      // between log lines about connections that are closed for want of room
)

// rate admits a number of streams per second, with a burst of one second's number.
type rate struct {
	mu        sync.Mutex
	perSecond float64
	tokens    float64
	last      time.Time
}

func newRate(perSecond float64) *rate { return &rate{perSecond: perSecond, tokens: max(perSecond, 1)} }

// admit returns nil, or an error with the delay before a retry. The delays differ, so that clients do not retry at the
// same time.
func (r *rate) admit(now time.Time) error {
	if r.perSecond <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last.IsZero() {
		r.tokens = min(max(r.perSecond, 1), r.tokens+now.Sub(r.last).Seconds()*r.perSecond)
	}
	r.last = now
	if r.tokens >= 1 {
		r.tokens--
		return nil
	}
	wait := time.Duration((0.5 + rand.Float64()) * float64(time.Second))
	refusal := status.New(codes.ResourceExhausted, "too many new streams, come again later")
	if detailed, err := refusal.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
		refusal = detailed
	}
	return refusal.Err()
}

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
