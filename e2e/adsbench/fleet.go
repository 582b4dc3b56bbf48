package main

import (
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
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

// proxy asks as Envoy does. It knows a resource by its bytes only.
type proxy struct {
	fleet  *fleet
	number int

	kind  int // of the last response
	out   [][]byte
	have  [4][]*thing // what it has, by kind
	names [4]*list    // what it subscribes to
	ver   [4]string
	nonce [4]string
	asked [4]bool
	held  bool    // the ACK of clusters waits for their endpoints
	since [4]bool // it has subscribed to the kind, on any stream
}

// thing is a resource that was seen before, by any proxy.
type thing struct {
	hash          uint64
	name, version string
	children      []string // what it makes Envoy ask for: endpoints or routes
}

type knowledge struct {
	seed   maphash.Seed
	once   sync.Once
	things sync.Map // hash → *thing
	lists  sync.Map // hash of the names → *list
	steps  sync.Map // two lists → fields of those that are new
}

// begin writes the first requests of a stream: for clusters, and for whatever the streams before have asked for, since a server
// does not send again what the proxy has.
func (p *proxy) begin() {
	p.out, p.nonce, p.asked, p.held = nil, [4]string{}, [4]bool{}, false
	for k := range p.since {
		if k == cds || p.since[k] {
			p.ask(k)
		}
	}
}

// ask subscribes to a kind for the first time on a stream.
func (p *proxy) ask(k int) {
	first := !slices.Contains(p.asked[:], true)
	p.asked[k], p.since[k] = true, true
	var b []byte
	if first {
		b = append(b, p.node()...)
	}
	n := p.fleet.numbers
	if p.fleet.delta {
		for _, t := range p.have[k] {
			entry := field(field(nil, 1, t.name), 2, t.version)
			b = protowire.AppendBytes(protowire.AppendTag(b, n.initial, protowire.BytesType), entry)
		}
	} else if p.ver[k] != "" {
		b = field(b, n.version, p.ver[k])
	}
	p.out = append(p.out, field(append(b, p.names[k].fields()...), n.typeURL, typeURLs[k]))
}

// ack accepts the last response of a kind; in the state of the world it repeats every name.
func (p *proxy) ack(k int) {
	n := p.fleet.numbers
	b := field(field(nil, n.typeURL, typeURLs[k]), n.nonce, p.nonce[k])
	if !p.fleet.delta {
		b = append(field(b, n.version, p.ver[k]), p.names[k].fields()...)
	}
	p.out = append(p.out, b)
}

func (p *proxy) node() []byte {
	text := func(s string) *structpb.Value { return structpb.NewStringValue(s) }
	namespace := namespaceOf(p.number, p.fleet.spread)
	node := &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~proxy-%d.%s~%s.svc.cluster.local", address(p.number%5000, 0), p.number, namespace, namespace),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"INTERCEPTION_MODE": text("NONE"), "HTTP_PROXY_PORT": text("15007"), "NAMESPACE": text(namespace),
		}},
	}
	data, _ := proto.Marshal(node) // plain text
	return protowire.AppendBytes(protowire.AppendTag(nil, p.fleet.node, protowire.BytesType), data)
}

// read takes a response and writes the requests that answer it.
func (p *proxy) read(message []byte) {
	p.fleet.bytes.Add(int64(len(message)))
	p.out, p.kind = p.out[:0], -1
	var told []*thing
	var removed []string
	var version, nonce string
	fields(message, func(n protowire.Number, value []byte) {
		switch n {
		case 1:
			version = string(value)
		case 2:
			told = append(told, p.fleet.know.thing(value, p.fleet.delta))
		case 4:
			p.kind = kindOf(value)
		case 5:
			nonce = string(value)
		case 6:
			removed = append(removed, string(value))
		}
	})
	k := p.kind
	if k < 0 {
		return
	}
	p.ver[k], p.nonce[k] = version, nonce
	fresh := p.take(k, told, removed)
	switch k {
	case cds:
		p.subscribe(eds, fresh)
		if p.held = fresh; !fresh {
			p.ack(cds)
			p.next(lds)
		}
	case eds:
		p.ack(eds)
		if p.held {
			p.held = false
			p.ack(cds)
		}
		p.next(lds)
	case lds:
		p.subscribe(rds, fresh)
		p.ack(lds)
	case rds:
		p.ack(rds)
	}
}

func (p *proxy) next(k int) {
	if !p.asked[k] {
		p.ask(k)
	}
}

// take brings what it has up to date, and reports whether a resource that names others came or changed.
func (p *proxy) take(k int, told []*thing, removed []string) (fresh bool) {
	old := p.have[k]
	for i, t := range told {
		same := i < len(old) && old[i] == t // the usual case, before a search
		if len(t.children) > 0 && !same && !slices.Contains(old, t) {
			fresh = true
			break
		}
	}
	if whole := k == cds || k == lds; whole && !p.fleet.delta || len(old) == 0 {
		p.have[k] = told
		return fresh
	}
	gone := map[string]bool{}
	for _, t := range told {
		gone[t.name] = true
	}
	for _, name := range removed {
		gone[name] = true
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(t *thing) bool { return gone[t.name] })
	p.have[k] = append(kept, told...)
	return fresh
}

// subscribe asks for the resources that those of the parent's kind name, if they are others than before.
func (p *proxy) subscribe(k int, fresh bool) {
	if !fresh {
		return
	}
	before, list := p.names[k], p.fleet.know.list(p.have[k-1])
	p.names[k] = list
	n := p.fleet.numbers
	switch {
	case !p.asked[k]:
		p.ask(k)
	case list == before:
	case !p.fleet.delta:
		p.ack(k)
	default:
		if added := p.fleet.know.added(before, list); len(added) > 0 {
			p.out = append(p.out, field(slices.Clip(added), n.typeURL, typeURLs[k]))
		}
	}
}

// thing returns what a resource is.
func (kn *knowledge) thing(value []byte, delta bool) *thing {
	kn.once.Do(func() { kn.seed = maphash.MakeSeed() })
	hash := maphash.Bytes(kn.seed, value)
	if t, ok := kn.things.Load(hash); ok {
		return t.(*thing)
	}
	t := &thing{hash: hash}
	content := value
	if delta {
		fields(value, func(n protowire.Number, v []byte) {
			switch n {
			case 1:
				t.version = string(v)
			case 2:
				content = v
			}
		})
	}
	t.inspect(content)
	kept, _ := kn.things.LoadOrStore(hash, t)
	return kept.(*thing)
}

func (t *thing) inspect(content []byte) {
	packed := &anypb.Any{}
	if proto.Unmarshal(content, packed) != nil {
		return
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		t.name = m.Name
		if m.GetType() == clusterv3.Cluster_EDS {
			t.children = []string{m.Name}
		}
	case *listenerv3.Listener:
		t.name = m.Name
		t.children = routesOf(m)
	case interface{ GetClusterName() string }:
		t.name = m.GetClusterName()
	case interface{ GetName() string }:
		t.name = m.GetName()
	}
}

func routesOf(l *listenerv3.Listener) (out []string) {
	for _, chain := range l.FilterChains {
		for _, filter := range chain.Filters {
			manager := &hcmv3.HttpConnectionManager{}
			if filter.GetTypedConfig().UnmarshalTo(manager) == nil && manager.GetRds() != nil {
				out = append(out, manager.GetRds().RouteConfigName)
			}
		}
	}
	return out
}

// list is names, and the fields of a request that they are; equal lists are one.
type list struct {
	names []string
	wire  []byte
}

// list returns the names that things name.
func (kn *knowledge) list(things []*thing) *list {
	var h maphash.Hash
	h.SetSeed(kn.seed)
	for _, t := range things {
		for _, name := range t.children {
			h.WriteString(name)
			h.WriteByte(0)
		}
	}
	if known, ok := kn.lists.Load(h.Sum64()); ok {
		return known.(*list)
	}
	l := &list{}
	for _, t := range things {
		l.names = append(l.names, t.children...)
	}
	slices.Sort(l.names)
	l.names = slices.Compact(l.names)
	for _, name := range l.names {
		l.wire = field(l.wire, 3, name)
	}
	kept, _ := kn.lists.LoadOrStore(h.Sum64(), l)
	return kept.(*list)
}

// added returns the fields of the names that only the second list has.
func (kn *knowledge) added(before, after *list) []byte {
	key := [2]*list{before, after}
	if known, ok := kn.steps.Load(key); ok {
		return known.([]byte)
	}
	var b []byte
	for _, name := range after.names {
		if _, had := slices.BinarySearch(before.names, name); !had {
			b = field(b, 3, name)
		}
	}
	kn.steps.Store(key, b)
	return b
}

// fields are the names as fields, of a list that may be nil.
func (l *list) fields() []byte {
	if l == nil {
		return nil
	}
	return l.wire
}
