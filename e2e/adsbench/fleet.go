package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// fleet is simulated Envoys, each with a connection of its own.
type fleet struct {
	numbers
	delta   bool
	target  string
	spread  int // namespaces that proxies are in
	know    *knowledge
	proxies []*proxy
	bytes   atomic.Int64
	streams atomic.Int64 // that were opened, since the fleet began
	seen    [4]seen
}

// seen says when responses of a kind came, since the last time it was asked.
type seen struct {
	mu          sync.Mutex
	by          map[*proxy]bool
	first, last int64
	responses   int
}

func (s *seen) add(p *proxy) {
	now := time.Now().UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responses++
	if s.by == nil {
		s.by = map[*proxy]bool{}
	}
	if len(s.by) == 0 {
		s.first = now
	}
	if !s.by[p] {
		s.by[p] = true
		s.last = now
	}
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by)
}

func runFleet(args []string) error {
	flags := flag.NewFlagSet("fleet", flag.ExitOnError)
	f := &fleet{know: &knowledge{}}
	flags.StringVar(&f.target, "target", "", "")
	flags.IntVar(&f.spread, "namespaces", 1, "")
	count := flags.Int("proxies", 0, "")
	deaf := flags.Bool("deaf", false, "ask, and never read")
	flags.BoolVar(&f.delta, "delta", false, "")
	flags.Parse(args)
	f.numbers = numbersOf(f.delta)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range *count {
		p := &proxy{fleet: f, number: i}
		f.proxies = append(f.proxies, p)
		running.Go(func() { p.run(ctx, *deaf) })
	}
	say(map[string]any{"ready": true})
	commands(f.do)
	cancel()
	running.Wait()
	return nil
}

func (f *fleet) do(words []string) {
	switch words[0] {
	case "mark":
		for k := range f.seen {
			f.seen[k].mu.Lock()
			f.seen[k].by, f.seen[k].responses = nil, 0
			f.seen[k].mu.Unlock()
		}
		f.bytes.Store(0)
		say(map[string]any{"done": "mark"})
	case "await": // kind, seconds: until every proxy has a response of it
		k, _ := strconv.Atoi(words[1])
		limit, _ := time.ParseDuration(words[2])
		for end := time.Now().Add(limit); f.seen[k].count() < len(f.proxies) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		f.report(k)
	case "report":
		k, _ := strconv.Atoi(words[1])
		f.report(k)
	}
}

func (f *fleet) report(k int) {
	s := &f.seen[k]
	s.mu.Lock()
	defer s.mu.Unlock()
	say(map[string]any{
		"proxies": len(s.by), "first": s.first, "last": s.last, "responses": s.responses, "bytes": f.bytes.Load(), "streams": f.streams.Load(),
	})
}

// run connects until ctx is done, with Envoy's jittered delay after a failure.
func (p *proxy) run(ctx context.Context, deaf bool) {
	var codec grpc.DialOption = grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newOpaque()), grpc.MaxCallRecvMsgSize(1<<28))
	conn, err := grpc.NewClient("passthrough:"+p.fleet.target, codec, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(1<<20),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.2, Jitter: 0.5, MaxDelay: time.Second}}))
	if err != nil {
		return
	}
	defer conn.Close()
	for ctx.Err() == nil {
		p.stream(ctx, conn, deaf)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(500 * time.Millisecond)))):
		}
	}
}

func (p *proxy) stream(ctx context.Context, conn *grpc.ClientConn, deaf bool) {
	wire, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodOf(p.fleet.delta), grpc.WaitForReady(true))
	if err != nil {
		return
	}
	p.fleet.streams.Add(1)
	p.begin()
	for _, request := range p.out {
		if wire.SendMsg(frames{request}) != nil {
			return
		}
	}
	if deaf {
		<-ctx.Done()
		return
	}
	for {
		if wire.RecvMsg(p) != nil {
			return
		}
		for _, request := range p.out {
			if wire.SendMsg(frames{request}) != nil {
				return
			}
		}
		if p.kind >= 0 {
			p.fleet.seen[p.kind].add(p)
		}
	}
}
