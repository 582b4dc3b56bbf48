package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	stopping, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	s := &server{stopping: stopping}
	listener, err := net.Listen("tcp", ":9090")
	if err != nil {
		return err
	}
	calls := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(calls, s)
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/echo", websocket.Server{Handler: s.echo}) // without a Handshake, since the client is no browser and has no Origin
	ended := make(chan error, 2)
	go func() { ended <- calls.Serve(listener) }()
	go func() { ended <- http.ListenAndServe(":9080", mux) }()
	select {
	case err := <-ended:
		return err
	case <-stopping.Done():
	}
	calls.GracefulStop()
	s.sockets.Wait()
	return nil
}

type server struct {
	grpc_testing.UnimplementedTestServiceServer
	stopping context.Context
	sockets  sync.WaitGroup
}

// FullDuplexCall sends an answer for each request.
func (s *server) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	ended := make(chan error, 1)
	go func() {
		for {
			_, err := stream.Recv()
			if err == nil {
				err = stream.Send(&grpc_testing.StreamingOutputCallResponse{})
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case <-ended:
		return nil
	case <-s.stopping.Done():
		return status.Error(codes.Unavailable, "bye")
	}
}

func (s *server) echo(socket *websocket.Conn) {
	s.sockets.Add(1)
	defer s.sockets.Done()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var message string
			if websocket.Message.Receive(socket, &message) != nil || websocket.Message.Send(socket, message) != nil {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-s.stopping.Done():
		_ = websocket.Message.Send(socket, "bye")
	}
}
