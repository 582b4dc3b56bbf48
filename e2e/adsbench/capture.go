package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

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
