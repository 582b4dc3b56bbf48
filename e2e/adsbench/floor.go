package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
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
