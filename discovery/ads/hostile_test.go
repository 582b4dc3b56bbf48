package ads

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Limits of the cost of hostile clients, in MiB of live heap. Without the bound on shared caches it is several times as
// much.
const (
	maxUnderAttack = 384
	maxLeftOver    = 64
)

// Hostile clients of every sort, at once: another client is not disturbed, memory is bounded, and when they are gone
// all memory that they used is free again.
func TestHostileClients(t *testing.T) {
	var words []string
	for i := range 500 {
		words = append(words, fmt.Sprintf("s%03d", i))
	}
	limits := testLimits()
	limits.SendTimeout = adstest.Deadline // the other client may have to wait for the CPU
	r := runWith(t, limits, nil)
	r.Push(adstest.Mesh(1, words...), model.Change{})
	before := liveHeap()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	good := r.dial(insecure.NewCredentials())
	defer good.Close()
	wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(good).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calm := &peerStream{t, wire}
	calm.ack(calm.ask(content.ClusterType))
	var attackers sync.WaitGroup
	var sent [8]atomic.Int64
	crowd := randomNames(rand.New(rand.NewPCG(1, 2)), 100_000)
	for i := range sent {
		attackers.Go(func() { attack(ctx, r, rand.New(rand.NewPCG(uint64(i), 1)), i, crowd, &sent[i]) })
	}
	slowest, most := time.Duration(0), int64(0)
	for i := 0; i < 4 || !enough(sent[:]); i++ {
		if i < 4 { // and then a while without a push, so that no cache is dropped with its generation
			start := time.Now()
			r.Push(adstest.Mesh(1, append(words, fmt.Sprint("new", i))...), model.Change{})
			calm.ack(calm.next(content.ClusterType))
			slowest = max(slowest, time.Since(start))
		}
		most = max(most, liveHeap()-before)
		if ctx.Err() != nil {
			t.Fatal("the attackers are stuck")
		}
	}
	if slowest > adstest.Deadline/2 {
		t.Errorf("another client waited %s for a push", slowest)
	}
	cancel()
	attackers.Wait()
	adstest.Until(t, "the attackers' streams to end", func() bool { return len(r.Clients()) == 1 })
	r.Push(adstest.Mesh(1, words...), model.Change{}) // caches that they used are dropped with their generation
	r.Push(adstest.Mesh(2, words...), model.Change{})
	calm.ack(calm.next(content.ClusterType))
	liveHeap() // pools keep their content for two collections
	liveHeap()
	left := liveHeap() - before
	t.Logf("at most %d MiB under attack, %d MiB left, slowest push %s", most>>20, left>>20, slowest)
	if most>>20 > maxUnderAttack || left>>20 > maxLeftOver {
		t.Errorf("%d MiB under attack, %d MiB left: want at most %d and %d", most>>20, left>>20, maxUnderAttack, maxLeftOver)
	}
}

// enough reports whether the server has read requests of every attacker, and whether the one with the most expensive
// names has sent more of them than any bound allows.
func enough(sent []atomic.Int64) bool {
	for i := range sent {
		if sent[i].Load() < 5 {
			return false
		}
	}
	return sent[1].Load() > 200
}

// liveHeap returns the size of the heap after a collection, including the clients of the test.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// pace returns how long an attacker waits between two requests: others need the CPU too.
func pace(sort int) time.Duration {
	switch sort {
	case 1: // the attacker that is bounded by its names, not by its pace
		return 0
	case 4:
		return 100 * time.Millisecond
	}
	return 5 * time.Millisecond
}

// attack floods one connection with one sort of malformed or useless requests, and never reads. It counts the requests.
func attack(ctx context.Context, r *running, dice *rand.Rand, sort int, crowd []string, sent *atomic.Int64) {
	conn := r.dial(insecure.NewCredentials())
	defer conn.Close()
	var raw []net.Conn
	var open []context.CancelFunc
	defer func() {
		for _, end := range open {
			end()
		}
		for _, c := range raw {
			_ = c.Close()
		}
	}()
	for ctx.Err() == nil {
		if sort == 6 && len(raw) < 100 { // connections that send half of a handshake, or nothing
			if c, err := r.listener.DialContext(ctx); err == nil {
				_, _ = c.Write([]byte("PRI * HTTP/2.0\r\n")[:dice.IntN(16)])
				raw = append(raw, c)
			}
		}
		life, end := context.WithCancel(ctx)
		path := adsPath + []string{"StreamAggregatedResources", "DeltaAggregatedResources"}[sort%2]
		wire, err := conn.NewStream(life, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
		if err == nil {
			for range 20 {
				if wire.SendMsg(nonsense(dice, sort, crowd)) != nil {
					break
				}
				sent.Add(1)
				<-time.After(pace(sort))
			}
		}
		if open = append(open, end); sort == 7 || len(open) > 8 { // begun and closed, repeatedly
			open[0]() // so that memory of the client is not measured
			open = open[1:]
		}
	}
}

// nonsense returns a request of one sort; odd sorts are of the delta variant.
func nonsense(dice *rand.Rand, sort int, crowd []string) proto.Message {
	typeURL := []string{content.ClusterType, content.EndpointType, content.RouteType, content.SecretType, "x", ""}[dice.IntN(6)]
	m := &discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: typeURL}
	d := &discoveryv3.DeltaDiscoveryRequest{Node: adstest.Node(), TypeUrl: typeURL}
	switch sort {
	case 0: // NACKs of responses that were never sent
		m.ErrorDetail = refused(string(make([]byte, dice.IntN(1<<16))))
	case 1: // an unlimited number of names
		d.TypeUrl, d.ResourceNamesSubscribe = content.EndpointType, randomNames(dice, 4_000)
	case 2: // nonces and versions of others
		m.ResponseNonce, m.VersionInfo = fmt.Sprint(dice.IntN(5)), fmt.Sprint(dice.Uint64())
	case 3: // versions of resources that do not exist
		d.InitialResourceVersions = map[string]string{}
		for _, name := range randomNames(dice, 1_000) {
			d.InitialResourceVersions[name] = name
		}
	case 4: // a hundred thousand names
		m.ResourceNames = crowd
	case 5, 7: // random nodes
		d.Node.Id = string([]byte{byte('a' + dice.IntN(26)), '~', '~', '~'})
	}
	if sort%2 == 1 {
		return d
	}
	return m
}

func randomNames(dice *rand.Rand, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(dice.Uint64())
	}
	return names
}
