package ads

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Serve answers on l, in plaintext, until ctx is done; it closes l. The server then closes connections one after the
// other, so that clients reconnect elsewhere, and cuts those that are left at the time limit. Serve returns when no
// goroutine of its own is left; nil if ctx ended it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveWith(ctx, l, plaintext{})
}

// ServeTLS is Serve with certificates on both sides.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener, secure *TLS) error {
	return s.serveWith(ctx, l, secure.credentials())
}

func (s *Server) serveWith(ctx context.Context, listener net.Listener, secure credentials.TransportCredentials) error {
	within := ctx
	ctx, cancel := context.WithCancel(within)
	defer cancel()
	port, isShared := secure.(shared)
	if !isShared {
		port.own = &Own{}
	}
	l := &entrance{listener, &s.connections, isShared}
	server := grpc.NewServer(s.limits.options(linked{secure, s.intake, s.refuse})...)
	for _, desc := range services() {
		server.RegisterService(desc, door{s, l, port.own.Prove, ctx.Done()})
	}
	if port.own.Sign != nil {
		security.RegisterIstioCertificateServiceServer(server, signing{Server: s, sign: port.own.Sign})
	}
	var running sync.WaitGroup
	for range pusherCount {
		running.Go(func() { s.pushers.run(ctx) })
	}
	running.Go(func() { s.cutSlow(ctx, l) })
	running.Go(func() { s.runCleanUp(ctx) })
	running.Go(func() { s.cutIncomplete(ctx) })
	running.Go(func() {
		<-ctx.Done()
		s.stop(server, l)
	})
	err := server.Serve(l)
	if errors.Is(err, grpc.ErrServerStopped) && within.Err() != nil { // the stop came before the start
		err = nil
	}
	cancel()
	running.Wait()
	if err != nil {
		return fmt.Errorf("serve ADS on %s: %w", l.Addr(), err)
	}
	return nil
}

// cutSlow closes the connections of proxies that do not answer, of one listener.
func (s *Server) cutSlow(ctx context.Context, l net.Listener) {
	tick := time.NewTicker(max(s.limits.SendTimeout/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, st := range s.all() {
				if st.listener == l {
					st.cutIfSlow(now, s.limits.SendTimeout)
				}
			}
		}
	}
}

// cutIncomplete closes the connections of clients that do not complete their requests.
func (s *Server) cutIncomplete(ctx context.Context) {
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.intake.CloseSlow(now)
		}
	}
}

// door accepts the streams of one listener.
type door struct {
	*Server
	listener net.Listener
	prove    prover // nil where only certificates prove
	closing  <-chan struct{}
}

// open admits a stream.
func (d door) open(w grpc.ServerStream, v content.Variant, only content.Kind) (*stream, error) {
	if d.current.Load() == nil {
		d.metrics.refused.WithLabelValues("not synced").Inc()
		return nil, status.Error(codes.Unavailable, "not synced yet")
	}
	select {
	case <-d.closing: // a client may open streams until it has received the GOAWAY
		d.metrics.refused.WithLabelValues("stopping").Inc()
		return nil, status.Error(codes.Unavailable, "stopping")
	default:
	}
	if err := d.rate.admit(time.Now()); err != nil {
		d.metrics.refused.WithLabelValues("rate").Inc()
		return nil, err
	}
	st := newStream(&d.hub, d.Server, w, v, only)
	st.listener, st.prove = d.listener, d.prove
	st.intake.Opened()
	d.add(st)
	return st, nil
}
