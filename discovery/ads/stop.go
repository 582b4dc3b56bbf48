package ads

import (
	"context"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
)

// stop moves proxies to other replicas. It announces the end to all of them, and closes open connections spread over
// time, so that the other replicas do not get all requests at once. It takes no longer than the limit, even if clients
// do not cooperate.
func (s *Server) stop(server *grpc.Server, l net.Listener) {
	late, cancel := context.WithTimeout(context.Background(), s.limits.Shutdown)
	defer cancel()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		server.GracefulStop()
	}()
	streams := slices.DeleteFunc(s.all(), func(st *stream) bool { return st.listener != l })
	s.connections.closeAllBut(l, connectionsOf(streams))
	pace := spread(len(streams), s.limits.Shutdown)
	for _, st := range streams {
		st.close()
		select {
		case <-time.After(pace):
		case <-graceful:
		case <-late.Done():
		}
	}
	select {
	case <-graceful:
	case <-late.Done():
		server.Stop()
		<-graceful
	}
}

// spread returns the time between the ends of n streams: ten milliseconds, or less, so that all take at most half of
// the limit.
func spread(n int, limit time.Duration) time.Duration {
	return min(10*time.Millisecond, limit/2/time.Duration(max(n, 1)))
}
