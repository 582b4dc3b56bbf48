package lastgood

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/agent/frame"
)

var header = Header{Node: "n", Discovery: "d:1", Bootstrap: "b", Envoy: []byte{1}}

// bubble runs a store in a directory, in a bubble.
func bubble(t *testing.T, dir string, log *slog.Logger, f func(s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(dir, dir, nil, func(uint64) bool { return true }, log)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		f(s)
		cancel()
		running.Wait()
	})
}

// answerOf is a response of discovery's: names with versions, "a@1", and removed ones, "-a".
func answerOf(typeURL, nonce string, names ...string) ([]byte, []string, Mark) {
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce}
	var own []string
	var last Mark
	for _, text := range names {
		if name, removed := strings.CutPrefix(text, "-"); removed {
			r.RemovedResources = append(r.RemovedResources, name)
			last = Mark{Name: name, Removed: true}
			continue
		}
		name, version, _ := strings.Cut(text, "@")
		value := &anypb.Any{TypeUrl: typeURL, Value: []byte("value of " + text)}
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: name, Version: version, Resource: value})
		own, last = append(own, name), Mark{Name: name, Version: version}
	}
	message, err := proto.Marshal(r)
	if err != nil {
		panic(err)
	}
	return message, own, last
}

// send records a response, and Envoy's answer to it.
func send(s *Session, typeURL, nonce, refusal string, names ...string) {
	s.Request(Request{Type: typeURL})
	tell(s, typeURL, nonce, names...)
	s.Request(Request{Type: typeURL, Nonce: nonce, Refused: refusal != "", Refusal: refusal})
}

func tell(s *Session, typeURL, nonce string, names ...string) {
	message, own, last := answerOf(typeURL, nonce, names...)
	s.Begin(len(message))
	_, _ = s.Write(message[:3])
	_, _ = s.Write(message[3:])
	s.End(typeURL, nonce, own, last)
}

// whole records clusters and listeners, and waits until they count.
func whole(s *Session, clusters, listeners string) {
	send(s, TypeCluster, "1", "", strings.Fields(clusters)...)
	send(s, TypeListener, "2", "", strings.Fields(listeners)...)
	pause(quietTime)
}

// remember leaves a whole journal in a directory.
func remember(t *testing.T, dir string, header Header) {
	t.Helper()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		session, _ := s.Session(1, header, nil)
		whole(session, "old@1", "old@1")
	})
}

func pause(d time.Duration) {
	<-time.After(d + time.Nanosecond)
	synctest.Wait()
}

// held returns what a file answers to an Envoy that has nothing, or why it is not used.
func held(path string, want Header, most time.Duration) (got string) {
	l, err := load(path, want, most, time.Now())
	if err != nil {
		return err.Error()
	}
	defer l.Close()
	a := Answers{Memory: l.Memory}
	for _, r := range []Request{{Type: TypeCluster}, {Type: TypeListener}, {Type: TypeEndpoints, Subscribe: []string{"a", "z"}}, {Type: TypeSecret, Subscribe: []string{"s"}}} {
		for _, answer := range a.Request(r) {
			var wire bytes.Buffer
			if err := l.Send(&wire, answer, nil); err != nil {
				return err.Error()
			}
			message, err := frame.Read(&wire, 1<<24)
			var out discoveryv3.DeltaDiscoveryResponse
			if err == nil {
				err = proto.Unmarshal(message, &out)
			}
			if err != nil {
				return err.Error()
			}
			for _, one := range out.Resources {
				got += one.Name + "@" + one.Version + " "
				if value := string(one.Resource.Value); value != "value of "+one.Name+"@"+one.Version {
					got += "with " + value
				}
			}
			got += fmt.Sprint(out.RemovedResources, ";")
		}
	}
	return got
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("n"))
	remember(t, dir, header)
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		session, fresh := s.Session(7, header, nil)
		if !fresh {
			t.Error("want a new journal")
		}
		session.Contact(time.Now())
		send(session, TypeCluster, "1", "", "a@1", "b@1", "c@1")
		send(session, TypeListener, "2", "Error adding/updating listener(s) l2: none", "l1@1", "l2@1")
		send(session, TypeEndpoints, "3", "", "a@1", "b@1")
		if pause(quietTime / 2); !strings.HasPrefix(held(path, header, 0), "old@1") {
			t.Error("it has the name before it is quiet")
		}
		pause(quietTime)
		send(session, TypeCluster, "4", "", "b@2", "-c")
		send(session, TypeCluster, "5", "Error adding/updating cluster(s) x: bad", "x@1")
		send(session, TypeSecret, "6", "", "s@1")
		session.Begin(100)
		_, _ = session.Write([]byte("half"))
		session.Abort()
	})
	want := "a@1 b@2 [];l1@1 [];a@1 [z];"
	if got := held(path, header, 0); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.LastIndex(text, []byte("A\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x04"))
	for end := start; end < start+recordHead+8+recordTail; end++ { // wherever the ACK of the fourth response is cut off
		if err := os.WriteFile(path, text[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := held(path, header, 0), "a@1 b@1 c@1 [];l1@1 [];a@1 [z];"; got != want {
			t.Errorf("cut at %d: got %s, want %s", end, got, want)
		}
	}
}

// A nonce belongs to a type: two responses may have the same one and wait for their answers at the same time.
func TestNoncesOfTypes(t *testing.T) {
	dir := t.TempDir()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		session, _ := s.Session(7, header, nil)
		types := []string{TypeCluster, TypeEndpoints, TypeListener}
		for _, typeURL := range types {
			tell(session, typeURL, "1", "a@1")
		}
		for _, typeURL := range types {
			session.Request(Request{Type: typeURL, Nonce: "1"})
		}
		pause(quietTime)
	})
	if got, want := held(filepath.Join(dir, FileName("n")), header, 0), "a@1 [];a@1 [];a@1 [z];"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// swift is an Envoy that ACKs a response of that size at its last byte.
type swift struct {
	left int
	ack  func()
}

func (e *swift) Write(p []byte) (int, error) {
	if e.left -= len(p); e.left == 0 {
		e.ack()
	}
	return len(p), nil
}

// An ACK counts however early it comes, also of what is sent from memory.
func TestAnEarlyAck(t *testing.T) {
	dir := t.TempDir()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		first, _ := s.Session(1, header, nil)
		whole(first, "a@1", "l@1")
		first.Close()
		l, err := s.Load(header, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		again := header
		again.Bootstrap = "c"
		second, _ := s.Session(2, again, nil)
		answers := Answers{Memory: l.Memory}
		for _, typeURL := range []string{TypeCluster, TypeListener} {
			second.Request(Request{Type: typeURL})
			for _, a := range answers.Request(Request{Type: typeURL}) {
				_, size, _ := a.message()
				ack := func() { second.Request(Request{Type: typeURL, Nonce: a.Nonce}) }
				if err := l.Send(&swift{size + frame.HeadSize, ack}, a, second); err != nil {
					t.Fatal(err)
				}
			}
		}
		pause(quietTime)
		if got, want := held(filepath.Join(dir, FileName("n")), again, 0), "a@1 [];l@1 [];[a z];"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A stream that comes back goes on with its journal, and tells which responses without an answer Envoy has taken.
func TestStreamsOfOneProcess(t *testing.T) {
	dir := t.TempDir()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		first, _ := s.Session(7, header, nil)
		whole(first, "a@1 b@1", "l@1")
		tell(first, TypeCluster, "3", "a@2")
		tell(first, TypeListener, "4", "l@2")
		tell(first, TypeEndpoints, "5", "a@1")
		tell(first, TypeCluster, "6", "-b")
		first.Close()
		second, fresh := s.Session(7, header, nil)
		if fresh {
			t.Error("it begins anew")
		}
		send(first, TypeCluster, "9", "", "too@late")
		second.Request(Request{Type: TypeCluster, Versions: map[string]string{"a": "2"}})
		second.Request(Request{Type: TypeListener, Versions: map[string]string{"l": "1"}})
		second.Request(Request{Type: TypeEndpoints, Versions: map[string]string{"a": "1"}})
		send(second, TypeCluster, "1", "", "c@1")
	})
	if got, want := held(filepath.Join(dir, FileName("n")), header, 0), "a@2 c@1 [];l@1 [];a@1 [z];"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Envoy's versions of a type count once the journal has what they are of: an agent that was upgraded begins a journal, and streams may end before
// discovery has sent anything. Else discovery would send nothing more, and a journal without clusters would be whole.
func TestVersionsOfWhatIsNotRecorded(t *testing.T) {
	dir := t.TempDir()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		asks := func(session *Session, typeURL, version string, want bool) {
			t.Helper()
			if got := session.Request(Request{Type: typeURL, Versions: map[string]string{"a": version}}); got != want {
				t.Errorf("its versions of %s are recorded: %v, want %v", typeURL, got, want)
			}
		}
		for range 2 { // streams that end before an answer
			session, _ := s.Session(7, header, nil)
			asks(session, TypeCluster, "1", false)
			asks(session, TypeListener, "1", false)
			session.Close()
		}
		session, _ := s.Session(7, header, nil)
		asks(session, TypeCluster, "1", false)
		tell(session, TypeCluster, "1", "a@2")
		tell(session, TypeListener, "2", "a@2")
		session.Close()
		session, _ = s.Session(7, header, nil)
		asks(session, TypeCluster, "2", true) // it has taken the response whose answer is missing
		asks(session, TypeListener, "1", false)
		send(session, TypeListener, "3", "", "a@2")
		session.Close()
		session, _ = s.Session(7, header, nil)
		asks(session, TypeCluster, "2", true)
		asks(session, TypeListener, "2", true)
		asks(session, TypeRoutes, "2", false)
		asks(nil, TypeRoutes, "2", true)
		session.Fail(errors.New("no disk"))
		asks(session, TypeEndpoints, "2", true)
	})
}

// A newcomer replaces what was only when it is whole, and an older process does not begin anew beside it.
func TestNewcomer(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("n"))
	holds := func(want string) {
		t.Helper()
		if got := held(path, header, 0); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		parent, _ := s.Session(1, header, nil)
		whole(parent, "a@1", "l@1")
		killed, _ := s.Session(2, header, nil)
		send(killed, TypeCluster, "1", "", "a@2")
		killed.Close()
		send(parent, TypeCluster, "3", "", "b@1")
		pause(time.Minute)
		holds("a@1 b@1 [];l@1 [];[a z];")
		newcomer, fresh := s.Session(3, header, nil)
		if !fresh {
			t.Error("a process goes on with another's journal")
		}
		whole(newcomer, "a@3", "l@3")
		send(parent, TypeCluster, "4", "", "a@1")
		if again, _ := s.Session(1, header, nil); again != nil {
			t.Error("the parent is recorded anew beside its newcomer")
		}
		pause(time.Minute)
		holds("a@3 [];l@3 [];[a z];")
		newcomer.Close()
		if again, fresh := s.Session(1, header, nil); again == nil || !fresh {
			t.Error("a parent whose newcomer has gone is not recorded")
		}
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// What a newcomer accepts while it is held does not count: it may be refused. Its parent is recorded on, also when its stream was away
// for a moment.
func TestAHeldNewcomer(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("n"))
	holds := func(want string) {
		t.Helper()
		if got := held(path, header, 0); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		serving := uint64(1)
		s.serves = func(process uint64) bool { return process == serving }
		parent, _ := s.Session(1, header, nil)
		whole(parent, "a@1", "l@1")
		parent.Close()
		newcomer, _ := s.Session(2, header, nil)
		whole(newcomer, "a@2", "l@2")
		pause(time.Minute)
		holds("a@1 [];l@1 [];[a z];")
		parent, fresh := s.Session(1, header, nil)
		if parent == nil || fresh {
			t.Errorf("what the parent has is forgotten: session %v, fresh %t", parent, fresh)
		}
		send(parent, TypeCluster, "3", "", "b@1")
		pause(quietTime)
		holds("a@1 b@1 [];l@1 [];[a z];")
		s.mu.Lock()
		serving = 2
		s.mu.Unlock()
		pause(quietTime)
		holds("a@2 [];l@2 [];[a z];")
		parent.Close()
		if again, _ := s.Session(1, header, nil); again != nil {
			t.Error("a parent that was replaced is recorded anew")
		}
	})
}

// A journal that has grown is written anew, with the same in it.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName("n"))
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		session, _ := s.Session(7, header, nil)
		whole(session, "a@1", "l@1")
		session.Contact(time.Now().Add(time.Hour))
		long := "b@" + strings.Repeat("9", 100_000)
		for i := range 50 {
			send(session, TypeCluster, fmt.Sprint("n", i), "", long)
			synctest.Wait()
		}
		send(session, TypeCluster, "last", "", "b@2", "c@1")
	})
	if info, err := os.Stat(path); err != nil || info.Size() > 3<<20 {
		t.Errorf("got %v, %v", info, err)
	}
	if got, want := held(path, header, 0), "a@1 b@2 c@1 [];l@1 [];[a z];"; got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
	l, err := load(path, header, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if at := time.Date(2000, 1, 1, 1, 0, 1, 1, time.UTC); !l.Contact.Equal(at) { // of the bubble's clock
		t.Errorf("contact %v, want %v", l.Contact, at)
	}
}

// In a busy mesh there is news all the time, and always a response without an answer: the journal is whole after a time all the same, is
// written anew all the same, and the answers that come after that count.
func TestABusyMesh(t *testing.T) {
	const change = 400 * time.Millisecond
	for name, test := range map[string]struct {
		asked string // a type without an answer
		most  time.Duration
	}{
		"every type has an answer": {"", settleTime},
		"one has none":             {"routes", patience},
		"but for secrets":          {TypeSecret, settleTime},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName("n"))
			remember(t, dir, header)
			isOld := func() bool { return strings.HasPrefix(held(path, header, 0), "old@1") }
			bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
				session, _ := s.Session(7, header, nil)
				send(session, TypeCluster, "c", "", "a@1")
				send(session, TypeListener, "l", "", "l@1")
				session.Request(Request{Type: test.asked})
				busy := func(round int) {
					version := strings.Repeat("9", 100_000)
					tell(session, TypeEndpoints, fmt.Sprint(round), "a@"+version+fmt.Sprint(round), fmt.Sprint(round%3, "@1"))
					if round > 0 {
						session.Request(Request{Type: TypeEndpoints, Nonce: fmt.Sprint(round - 1)})
					}
					pause(change)
				}
				rounds := int(test.most/change) + 3 // the first ACK of endpoints begins it
				for round := range rounds {
					busy(round)
					if time.Duration(round)*change < test.most-change && !isOld() {
						t.Fatalf("whole after %d changes", round)
					}
				}
				if isOld() {
					t.Fatalf("not whole after %d changes", rounds)
				}
				for round := rounds; round < rounds+100; round++ {
					busy(round)
				}
				if info, err := os.Stat(path); err != nil || info.Size() > 4<<20 {
					t.Errorf("not written anew: %v, %v", info.Size(), err)
				}
				session.Contact(time.Now())
				pause(0)
				if !s.Newest().Equal(time.Now().Add(-time.Nanosecond)) {
					t.Errorf("newest is %v at %v", s.Newest(), time.Now())
				}
				l, err := s.Load(header, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if got, want := l.Memory.Versions(TypeEndpoints)["a"], fmt.Sprint(rounds+98); !strings.HasSuffix(got, "9"+want) || l.Cut {
					t.Errorf("the last one accepted ends in %s, want %s; cut %t", got[max(0, len(got)-4):], want, l.Cut)
				}
			})
		})
	}
}

// What is remembered of another bootstrap fits no Envoy that starts from now on: a newcomer is remembered as soon as it serves, however much news
// there is, and not while it is held.
func TestANewcomerOfAnotherBootstrap(t *testing.T) {
	dir := t.TempDir()
	remember(t, dir, header)
	other := header
	other.Bootstrap = "another"
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		serving := uint64(1)
		s.serves = func(process uint64) bool { return process == serving }
		newcomer, _ := s.Session(2, other, nil)
		send(newcomer, TypeCluster, "1", "", "a@1")
		send(newcomer, TypeListener, "2", "", "l@1")
		news := func(round int) {
			send(newcomer, TypeEndpoints, fmt.Sprint(round), "", "a@1")
			tell(newcomer, TypeCluster, fmt.Sprint("c", round), "b@1")
			pause(heldTime)
		}
		for round := range 20 {
			news(round)
		}
		if got := held(s.Path("n"), header, 0); !strings.HasPrefix(got, "old@1") {
			t.Errorf("of one that is held: %s", got)
		}
		s.mu.Lock()
		serving = 2
		s.mu.Unlock()
		news(20)
		if got := held(s.Path("n"), other, 0); got != "a@1 [];l@1 [];a@1 [z];" {
			t.Errorf("of one that serves: %s", got)
		}
		another, _ := s.Session(3, other, nil)
		s.mu.Lock()
		serving = 3
		s.mu.Unlock()
		send(another, TypeCluster, "1", "", "a@2")
		send(another, TypeListener, "2", "", "l@2")
		if pause(heldTime); held(s.Path("n"), other, 0) != "a@1 [];l@1 [];a@1 [z];" {
			t.Error("one that fits lost its name at once")
		}
	})
}

// Of a newcomer that was held, and has gone, nothing is asked any more.
func TestANewcomerThatHasGone(t *testing.T) {
	dir := t.TempDir()
	remember(t, dir, header)
	other := header
	other.Bootstrap = "another"
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		asked := 0
		s.serves = func(uint64) bool { asked++; return false } // under the store's lock
		newcomer, _ := s.Session(2, other, nil)
		send(newcomer, TypeCluster, "1", "", "a@1")
		send(newcomer, TypeListener, "2", "", "l@1")
		pause(quietTime)
		newcomer.Close()
		pause(quietTime)
		before := asked
		if pause(time.Minute); asked != before {
			t.Errorf("asked %d times in a minute whether it serves", asked-before)
		}
	})
}

// A newcomer that is held for long is written anew too, and does not become whole by that.
func TestAHeldNewcomerInABusyMesh(t *testing.T) {
	dir := t.TempDir()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		serving := uint64(1)
		s.serves = func(process uint64) bool { return process == serving }
		parent, _ := s.Session(1, header, nil)
		whole(parent, "a@1", "l@1")
		newcomer, _ := s.Session(2, header, nil)
		whole(newcomer, "a@2", "l@2")
		for i := range 50 {
			send(newcomer, TypeCluster, fmt.Sprint("n", i), "", "b@"+strings.Repeat("9", 100_000))
			pause(quietTime)
		}
		if got := held(s.Path("n"), header, 0); got != "a@1 [];l@1 [];[a z];" {
			t.Errorf("got %.200s", got)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*.new"))
		if len(left) != 1 {
			t.Fatalf("files of the newcomer: %v", left)
		}
		if info, err := os.Stat(left[0]); err != nil || info.Size() > 3<<20 {
			t.Errorf("not written anew: %v, %v", info.Size(), err)
		}
		send(newcomer, TypeCluster, "last", "", "b@2")
		s.mu.Lock()
		serving = 2
		s.mu.Unlock()
		pause(quietTime)
		if got := held(s.Path("n"), header, 0); got != "a@2 b@2 [];l@2 [];[a z];" {
			t.Errorf("got %.200s", got)
		}
	})
}

// Agents that share a configPath and start in another order find what is theirs, and none takes another's.
func TestOtherOrder(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	record := func(dir, node, version string) {
		t.Helper()
		of := header
		of.Node = node
		bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
			session, _ := s.Session(1, of, nil)
			session.Contact(time.Now())
			whole(session, "a@"+version, "l@"+version)
		})
	}
	find := func(dir, node, want string) {
		t.Helper()
		of := header
		of.Node = node
		l, err := NewStore(dir, dir, dirs, nil, slog.New(slog.DiscardHandler)).Load(of, 0)
		if err != nil {
			t.Fatalf("%s: %v", node, err)
		}
		defer l.Close()
		if got := l.Memory.Versions(TypeCluster)["a"]; got != want {
			t.Errorf("%s: got %s, want %s", node, got, want)
		}
	}
	record(dirs[0], "one", "1")
	record(dirs[1], "two", "2")
	find(dirs[1], "one", "1")
	find(dirs[0], "two", "2")
	record(dirs[1], "one", "3") // in the other's place
	find(dirs[0], "two", "2")
	record(dirs[0], "one", "4") // of the same time, and its own
	find(dirs[0], "one", "4")
	for i := range 2 * mostKept {
		record(dirs[0], fmt.Sprint("node ", i), "1")
	}
	if left, err := os.ReadDir(dirs[0]); err != nil || len(left) > mostKept+1 {
		t.Errorf("%d files, %v", len(left), err)
	}
}

// A certificate that is broken now does not cost the configuration; and one without is used only where there is none with one.
func TestCertificate(t *testing.T) {
	certified := header
	certified.Certificate = true
	for name, test := range map[string]struct {
		held  []Header // in the own directory, and in another one
		want  Header
		plain bool
	}{
		"with, for bad files":            {[]Header{certified}, header, false},
		"with, for good ones":            {[]Header{certified}, certified, false},
		"without, for good ones":         {[]Header{header}, certified, true},
		"without, for bad ones":          {[]Header{header}, header, true},
		"both, for good ones":            {[]Header{header, certified}, certified, false},
		"both, for bad ones":             {[]Header{header, certified}, header, false},
		"both, the other way round":      {[]Header{certified, header}, certified, false},
		"both, the other way round, bad": {[]Header{certified, header}, header, false},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := []string{t.TempDir(), t.TempDir()}
			for i, h := range test.held {
				bubble(t, dirs[i], slog.New(slog.DiscardHandler), func(s *Store) {
					session, _ := s.Session(1, h, nil)
					session.Contact(time.Now().Add(time.Duration(i) * time.Hour))
					whole(session, "a@1", "l@1")
				})
			}
			l, err := NewStore(dirs[0], dirs[0], dirs[1:], nil, slog.New(slog.DiscardHandler)).Load(test.want, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if l.Plain != test.plain {
				t.Errorf("plain %t, want %t", l.Plain, test.plain)
			}
		})
	}
}

// A file that is removed while it is written is there again at the next contact, and what is accepted later is added to it. One that has
// the name of another agent's stays that one's.
func TestAFileThatIsRemoved(t *testing.T) {
	dir := t.TempDir()
	bubble(t, dir, slog.New(slog.DiscardHandler), func(s *Store) {
		session, _ := s.Session(1, header, nil)
		whole(session, "a@1", "l@1")
		for _, remove := range []func() error{
			func() error { return os.Remove(s.Path("n")) },
			func() error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		} {
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			session.Contact(time.Now())
			synctest.Wait()
			if got := held(s.Path("n"), header, 0); got != "a@1 [];l@1 [];[a z];" {
				t.Errorf("got %s", got)
			}
		}
		if err := errors.Join(os.Remove(s.Path("n")), os.WriteFile(s.Path("n"), []byte("another"), 0o600)); err != nil {
			t.Fatal(err)
		}
		session.Contact(time.Now())
		pause(firstRetry)
		again, fresh := s.Session(1, header, nil)
		if !fresh {
			t.Fatal("it goes on with a file that has lost its name")
		}
		whole(again, "a@1", "l@1")
		if got := held(s.Path("n"), header, 0); got != "a@1 [];l@1 [];[a z];" {
			t.Errorf("got %s", got)
		}
	})
}

// If a response cannot be recorded, recording ends with a warning and is tried again; the file stays.
func TestRecordingFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "there")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	bubble(t, dir, slog.New(slog.NewTextHandler(&log, nil)), func(s *Store) {
		first, _ := s.Session(1, header, nil)
		whole(first, "a@1", "l@1")
		aside := dir + "-aside"
		if err := os.Rename(dir, aside); err != nil {
			t.Fatal(err)
		}
		if fault, ended := s.Recording(); fault != "" || ended != 0 {
			t.Errorf("recording: fault %q, ended %d times", fault, ended)
		}
		second, _ := s.Session(2, header, nil)
		whole(second, "a@2", "l@2")
		if fault, ended := s.Recording(); !strings.Contains(fault, "no such file or directory") || ended != 1 {
			t.Errorf("not recording: fault %q, ended %d times", fault, ended)
		}
		if again, _ := s.Session(2, header, nil); again != nil {
			t.Error("tried again at once")
		}
		second.Close()
		if err := os.Rename(aside, dir); err != nil {
			t.Fatal(err)
		}
		if got := held(filepath.Join(dir, FileName("n")), header, 0); got != "a@1 [];l@1 [];[a z];" {
			t.Errorf("got %s", got)
		}
		pause(firstRetry)
		fourth, fresh := s.Session(2, header, nil)
		if !fresh {
			t.Error("not recorded again")
		}
		whole(fourth, "a@3", "l@3")
		if fault, ended := s.Recording(); fault != "" || ended != 1 {
			t.Errorf("recording again: fault %q, ended %d times", fault, ended)
		}
	})
	if got := held(filepath.Join(dir, FileName("n")), header, 0); got != "a@3 [];l@3 [];[a z];" {
		t.Errorf("got %s", got)
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "not remembered") || !strings.Contains(got, "no such file or directory") ||
		strings.Count(got, `level=INFO msg="the configuration is remembered again"`) != 1 {
		t.Errorf("log: %s", got)
	}
}

// A session whose recording fails while it lasts is asked to begin anew.
func TestRestart(t *testing.T) {
	bubble(t, t.TempDir(), slog.New(slog.DiscardHandler), func(s *Store) {
		var restarted atomic.Int64
		session, _ := s.Session(1, header, func() { restarted.Add(1) })
		session.Fail(errors.New("too long"))
		pause(firstRetry)
		if restarted.Load() != 1 {
			t.Errorf("restarted %d times", restarted.Load())
		}
	})
}

// A stream that begins while recording waits to be tried again is asked to begin anew when that time has come, whichever stream or process
// was recorded before. One that has ended by then is not.
func TestRestartOfALaterStream(t *testing.T) {
	for name, process := range map[string]uint64{"of the process": 1, "of a newcomer": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, t.TempDir(), slog.New(slog.DiscardHandler), func(s *Store) {
				first, _ := s.Session(1, header, nil)
				first.Fail(errors.New("too long"))
				first.Close()
				var ended, restarted atomic.Int64
				short, _ := s.Session(process, header, func() { ended.Add(1) })
				short.Close()
				again, fresh := s.Session(process, header, func() { restarted.Add(1) })
				if fresh {
					t.Error("tried again at once")
				}
				whole(again, "a@1", "l@1") // nothing of it counts
				pause(firstRetry)
				if restarted.Load() != 1 || ended.Load() != 0 {
					t.Errorf("restarted %d times, and %d times one that has ended", restarted.Load(), ended.Load())
				}
				again.Close()
				anew, fresh := s.Session(process, header, nil)
				if !fresh {
					t.Error("not recorded again")
				}
				whole(anew, "a@2", "l@2")
				if fault, _ := s.Recording(); fault != "" {
					t.Errorf("fault %q", fault)
				}
				if got := held(s.Path("n"), header, 0); got != "a@2 [];l@2 [];[a z];" {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// written returns the path of a file that fits.
func written(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName("n"))
	text := header.encode(time.Now())
	for number, one := range []struct{ typeURL, name string }{{TypeCluster, "a@1"}, {TypeListener, "l@1"}} {
		message, _, _ := answerOf(one.typeURL, "n", one.name)
		head, sum := encodeHead(kindResponse, uint64(number), len(message))
		text = append(append(text, head...), message...)
		text = append(text, encodeSum(sum, message)...)
		text = append(text, encodeAccepted(uint64(number), nil)...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that does not fit is refused with the reason.
func TestLoadRefuses(t *testing.T) {
	edit := func(f func(text []byte) []byte) func(path string) error {
		return func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, f(text), 0o600)
			}
			return err
		}
	}
	linked := func(link func(old, new string) error) func(path string) error {
		return func(path string) error {
			return errors.Join(os.Rename(path, path+"-2"), link(path+"-2", path))
		}
	}
	for name, test := range map[string]struct {
		change func(path string) error
		want   Header
		most   time.Duration
		err    string
	}{
		"as it is":         {nil, header, time.Hour, "a@1 [];l@1 [];[a z];"},
		"node":             {nil, Header{"m", "d:1", "b", []byte{1}, false}, 0, `it is of another node: "n", want "m"`},
		"discovery":        {nil, Header{"n", "e:1", "b", []byte{1}, false}, 0, `of another discovery`},
		"bootstrap":        {nil, Header{"n", "d:1", "c", []byte{1}, false}, 0, `of another bootstrap`},
		"Envoy":            {nil, Header{"n", "d:1", "b", []byte{2}, false}, 0, `of another version of Envoy: "01", want "02"`},
		"age":              {nil, header, time.Nanosecond, "it was the newest at 20"},
		"mode":             {func(path string) error { return os.Chmod(path, 0o640) }, header, 0, "others may open it: mode -rw-r-----"},
		"symbolic link":    {linked(os.Symlink), header, 0, "too many levels of symbolic links"},
		"hard link":        {linked(os.Link), header, 0, "2 names"},
		"pipe":             {func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, header, 0, "no regular file"},
		"directory":        {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, header, 0, "no regular file"},
		"endless":          {func(path string) error { return os.Truncate(path, mostFile+1) }, header, 0, "want at most"},
		"empty":            {edit(func([]byte) []byte { return nil }), header, 0, "or of another format"},
		"another format":   {edit(func(text []byte) []byte { return append([]byte("x"), text...) }), header, 0, "or of another format"},
		"half a header":    {edit(func(text []byte) []byte { return text[:headerAt+10] }), header, 0, "half-written"},
		"a broken header":  {edit(func(text []byte) []byte { text[headerAt+6] ^= 1; return text }), header, 0, "the checksum of its header is wrong"},
		"a broken cluster": {edit(func(text []byte) []byte { text[len(header.encode(time.Now()))+20] ^= 1; return text }), header, 0, "no clusters or no listeners"},
		"without listeners": {edit(func(text []byte) []byte {
			return text[:strings.LastIndex(string(text), "R\x00\x00")]
		}), header, 0, "no clusters or no listeners"},
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t)
			if test.change != nil {
				if err := test.change(path); err != nil {
					t.Fatal(err)
				}
			}
			if got := held(path, test.want, test.most); !strings.Contains(got, test.err) {
				t.Errorf("got %s, want %s", got, test.err)
			}
		})
	}
	if _, err := NewStore(t.TempDir(), "", nil, func(uint64) bool { return true }, slog.New(slog.DiscardHandler)).Load(header, 0); !errors.Is(err, ErrNone) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// Load reads nothing outside of a file, whatever is in it.
func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile(written(f))
	if err != nil {
		f.Fatal(err)
	}
	size := len(header.encode(time.Now()))
	f.Add(text[size:])
	f.Add(encodeAccepted(0, []string{"a", ""}))
	f.Add([]byte("R\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, records []byte) {
		path := filepath.Join(t.TempDir(), FileName("n"))
		if err := os.WriteFile(path, append(text[:size:size], records...), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := load(path, header, 0, time.Now())
		if err != nil {
			return
		}
		defer l.Close()
		for typeURL, held := range l.Memory.types {
			for name, p := range held {
				if p.from < int64(size) || p.from+int64(p.size) > int64(size+len(records)) {
					t.Errorf("%s %s lies at %d, %d bytes, in a file of %d", typeURL, name, p.from, p.size, size+len(records))
				}
			}
		}
	})
}
