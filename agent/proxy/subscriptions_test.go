package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// subscriber is an Envoy at the SDS of secrets, with a stream for each name, as it has them.
type subscriber struct {
	t      *testing.T
	client secretv3.SecretDiscoveryServiceClient
}

func (s subscriber) asks(ctx context.Context, name string) (got int, err error) {
	stream, err := s.client.StreamSecrets(ctx)
	if err == nil {
		err = stream.Send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{name}})
	}
	if err != nil {
		return 0, err
	}
	response, err := stream.Recv()
	return len(response.GetResources()), err
}

// followed serves and follows secrets until the test ends.
func followed(t *testing.T, s *secrets) subscriber {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := s.server.NewHTTPServer(s.log)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	running.Go(func() { s.follow(ctx, nil) })
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		conn.Close()
		server.Close()
		running.Wait()
	})
	return subscriber{t, secretv3.NewSecretDiscoveryServiceClient(conn)}
}

// awaits waits for a condition.
func awaits(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := lab.Eventually(20*time.Second, func() error {
		if !holds() {
			return errors.New("want that " + what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Files of two hosts are served; one becomes broken; Envoy dies, and the next one asks for one secret after the other: it gets both, as the
// one before had them. After an upgrade of the agent it does too, though Envoy has asked for nothing yet when the agent first looks.
func TestAnEnvoyThatIsStartedAgainHasTheLastGoodFiles(t *testing.T) {
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := func(host string) string {
		return "file-cert:" + filepath.Join(dir, host+".pem") + "~" + filepath.Join(dir, host+".key")
	}
	for _, host := range []string{"a", "b"} {
		identity, err := authority.Issue(host, 1)
		if err == nil {
			err = identity.Write(dir, host)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	anew := func(files sds.Secrets) *secrets {
		log := slog.New(slog.DiscardHandler)
		return &secrets{workload: cert.Files{Chain: filepath.Join(dir, "none")}, server: &sds.Server{Log: log}, log: log, files: files}
	}
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	both := func(when string, s *secrets, e subscriber, ctx context.Context) {
		t.Helper()
		for n, host := range []string{"a", "b"} {
			if got, err := e.asks(ctx, name(host)); got != 1 || err != nil {
				t.Errorf("%s Envoy gets %d secrets of %s: %v", when, got, host, err)
			}
			awaits(t, "the agent looks at what Envoy asks for", func() bool { return len(*s.seen.Load()) == n+1 })
		}
	}
	s := anew(nil)
	e := followed(t, s)
	life, dies := context.WithCancel(limit)
	both("at first", s, e, life)
	if err := os.WriteFile(filepath.Join(dir, "b.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	awaits(t, "the agent has seen the fault", func() bool { return (*s.seen.Load())[1].Fault != "" })
	carried := sds.Resume(s.server.Newest().Carried())
	dies()
	awaits(t, "the dead Envoy is forgotten", func() bool { return len(s.server.Asked()) == 0 })
	both("started again,", s, e, limit)

	next := anew(carried)
	e = followed(t, next)
	awaits(t, "the next image has looked", func() bool { return next.seen.Load() != nil })
	both("after an upgrade", next, e, limit)
}
