package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
)

const method = "/wire.Peer/Name"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("%q: want client PACE_MS TARGET..., or server PORT NAME", args)
	}
	if args[0] == "server" {
		return serve(args[1], args[2])
	}
	pace, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var targets sync.WaitGroup
	for _, target := range args[2:] {
		targets.Go(func() { call(target, time.Duration(pace)*time.Millisecond) })
	}
	targets.Wait()
	return nil
}

// call calls a target for ever, and prints a line for each call.
func call(target string, pace time.Duration) {
	client, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	for ; err == nil; time.Sleep(pace) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var answer []byte
		err := client.Invoke(ctx, method, []byte(nil), &answer, grpc.ForceCodecV2(raw{}))
		cancel()
		result := "ok " + string(answer)
		if err != nil {
			result = fmt.Sprintf("error %s: %s", status.Code(err), strings.ReplaceAll(status.Convert(err).Message(), "\n", " "))
		}
		fmt.Printf("%d %s %s\n", time.Now().UnixMilli(), target, result)
	}
	fmt.Fprintln(os.Stderr, "peer:", err)
}

// server is what both kinds of gRPC's servers have.
type server interface{ Serve(net.Listener) error }

func serve(port, name string) error {
	listener, err := net.Listen("tcp", "0.0.0.0:"+port)
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(raw{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			if err := stream.RecvMsg(new([]byte)); err != nil {
				return err
			}
			return stream.SendMsg([]byte(name))
		}),
	}
	var s server = grpc.NewServer(options...)
	if os.Getenv("GRPC_XDS_BOOTSTRAP") != "" {
		if s, err = xds.NewGRPCServer(options...); err != nil {
			return err
		}
	}
	return s.Serve(listener)
}

// raw passes bytes through.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
