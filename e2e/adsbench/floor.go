package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// floor answers each first request of a kind with captured bytes. It computes nothing.
type floor struct {
	delta    bool
	captured [4][]byte // less the nonce
	changed  [4][]byte // a response that tells of one change

	mu      sync.Mutex
	streams map[*floorStream]bool
}

type floorStream struct {
	grpc.ServerStream
	mu     sync.Mutex
	nonces int
}

func runFloor(args []string) error {
	flags := flag.NewFlagSet("floor", flag.ExitOnError)
	listen := flags.String("listen", "", "")
	dir := flags.String("dir", "", "")
	f := &floor{streams: map[*floorStream]bool{}}
	flags.BoolVar(&f.delta, "delta", false, "")
	flags.Parse(args)
	for k := range typeURLs {
		for name, to := range map[string]*[]byte{"first": &f.captured[k], "change": &f.changed[k]} {
			data, err := os.ReadFile(filepath.Join(*dir, fmt.Sprintf("%s-%d", name, k)))
			if err != nil && name == "first" {
				return err
			}
			*to = data
		}
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(newOpaque()), grpc.UnknownServiceHandler(f.serve),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(1<<20))
	go server.Serve(l)
	say(map[string]any{"ready": true})
	commands(f.do)
	server.Stop()
	return nil
}

// question is what the floor needs of a request.
type question struct {
	numbers
	kind     int
	answered bool // it has a nonce, a version or initial versions: nothing is sent
}

func (q *question) read(message []byte) {
	q.answered = false
	fields(message, func(n protowire.Number, value []byte) {
		switch n {
		case q.typeURL:
			q.kind = kindOf(value)
		case q.nonce, q.version, q.initial:
			q.answered = true
		}
	})
}

func (f *floor) serve(_ any, wire grpc.ServerStream) error {
	st := &floorStream{ServerStream: wire}
	f.mu.Lock()
	f.streams[st] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.streams, st)
		f.mu.Unlock()
	}()
	q := &question{numbers: numbersOf(f.delta)}
	for {
		if err := wire.RecvMsg(q); err != nil {
			return nil
		}
		if !q.answered {
			if err := st.send(f.captured[q.kind]); err != nil {
				return err
			}
		}
	}
}

func (st *floorStream) send(message []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.nonces++
	return st.SendMsg(frames{message, field(nil, 5, strconv.Itoa(st.nonces))})
}

func (f *floor) do(words []string) {
	switch words[0] {
	case "settle":
		settle()
		return
	case "push":
		k, _ := strconv.Atoi(words[1])
		f.push(k)
	}
	say(map[string]any{"done": words[0]})
}

// push sends a change to all from two goroutines, as ours does.
func (f *floor) push(k int) {
	f.mu.Lock()
	var all []*floorStream
	for st := range f.streams {
		all = append(all, st)
	}
	f.mu.Unlock()
	var next atomic.Int64
	var g sync.WaitGroup
	for range 2 {
		g.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				all[i].send(f.changed[k])
			}
		})
	}
	g.Wait()
}

// opaque sends and receives bytes as they are.
type opaque struct{ scratch *sync.Pool }

func newOpaque() opaque { return opaque{&sync.Pool{New: func() any { return new([]byte) }}} }

func (opaque) Name() string { return "proto" }

// frames is a message to send, of parts that others may hold as well.
type frames [][]byte

func (opaque) Marshal(v any) (mem.BufferSlice, error) {
	out := mem.BufferSlice{}
	for _, b := range v.(frames) {
		out = append(out, mem.SliceBuffer(b))
	}
	return out, nil
}

// reader takes a message that is gone when it returns.
type reader interface{ read(message []byte) }

func (o opaque) Unmarshal(data mem.BufferSlice, v any) error {
	if len(data) == 1 {
		v.(reader).read(data[0].ReadOnlyData())
		return nil
	}
	scratch := o.scratch.Get().(*[]byte)
	defer o.scratch.Put(scratch)
	if n := data.Len(); cap(*scratch) < n {
		*scratch = make([]byte, n)
	}
	*scratch = (*scratch)[:data.Len()]
	data.CopyTo(*scratch)
	v.(reader).read(*scratch)
	return nil
}

// fields calls f for each field of a message that has bytes.
func fields(message []byte, f func(number protowire.Number, value []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		m := protowire.ConsumeFieldValue(number, kind, message[n:])
		if n < 0 || m < 0 {
			return
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			f(number, value)
		}
		message = message[n+m:]
	}
}

func field(b []byte, number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// kinds in the order that Envoy asks for them.
var typeURLs = [4]string{
	"type.googleapis.com/envoy.config.cluster.v3.Cluster",
	"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	"type.googleapis.com/envoy.config.listener.v3.Listener",
	"type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
}

const (
	cds = iota
	eds
	lds
	rds
)

func kindOf(typeURL []byte) int {
	for k, t := range typeURLs {
		if string(typeURL) == t {
			return k
		}
	}
	return cds
}

// numbers are the fields of requests of a variant.
type numbers struct {
	node, typeURL, names, unsubscribe, initial, nonce, version protowire.Number
}

func numbersOf(delta bool) numbers {
	if delta {
		return numbers{node: 1, typeURL: 2, names: 3, unsubscribe: 4, initial: 5, nonce: 6}
	}
	return numbers{version: 1, node: 2, names: 3, typeURL: 4, nonce: 5}
}

func methodOf(delta bool) string {
	const service = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
	if delta {
		return service + "DeltaAggregatedResources"
	}
	return service + "StreamAggregatedResources"
}

// capture writes what a proxy is sent at its start, and what one change of each sort makes, for the floor to send.
func capture(target, dir string, delta bool, server *child) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f := &fleet{target: target, know: &knowledge{}, delta: delta, numbers: numbersOf(delta)}
	p := &captor{proxy: &proxy{fleet: f}, dir: dir, as: "first"}
	conn, err := grpc.NewClient("passthrough:"+target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newOpaque()), grpc.MaxCallRecvMsgSize(1<<28)))
	if err != nil {
		return err
	}
	defer conn.Close()
	wire, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodOf(delta))
	if err != nil {
		return err
	}
	p.begin()
	if err := p.until(wire, rds); err != nil {
		return err
	}
	p.as = "change"
	for _, c := range []struct {
		name string
		kind int
	}{{"endpoint", eds}, {"weight", rds}} {
		if _, err := server.ask(c.name); err != nil {
			return err
		}
		if err := p.until(wire, c.kind); err != nil {
			return fmt.Errorf("capture a change: %w", err)
		}
	}
	return p.err
}

// captor is a proxy that keeps what it is sent.
type captor struct {
	*proxy
	dir, as string
	err     error
}

func (c *captor) read(message []byte) {
	c.proxy.read(message)
	var kept []byte
	for rest := message; len(rest) > 0; {
		number, kind, tag := protowire.ConsumeTag(rest)
		size := tag + protowire.ConsumeFieldValue(number, kind, rest[tag:])
		if number != 5 {
			kept = append(kept, rest[:size]...)
		}
		rest = rest[size:]
	}
	c.err = errors.Join(c.err, os.WriteFile(filepath.Join(c.dir, fmt.Sprintf("%s-%d", c.as, c.kind)), kept, 0o600))
}

// until answers until a response of a kind was answered.
func (c *captor) until(wire grpc.ClientStream, kind int) error {
	for {
		for _, request := range c.out {
			if err := wire.SendMsg(frames{request}); err != nil {
				return err
			}
		}
		if c.out = nil; c.asked[kind] && c.kind == kind {
			c.kind = -1
			return nil
		}
		if err := wire.RecvMsg(c); err != nil {
			return err
		}
	}
}
