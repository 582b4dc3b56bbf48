package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

// A connection that is being dialled when all are closed is closed as well; a later one stays open.
func TestCloseWhileDialling(t *testing.T) {
	var d *dialer
	closes := true
	var server net.Conn
	d = newDialer(func(context.Context, string, string) (net.Conn, error) {
		client, peer := net.Pipe()
		server = peer
		if closes {
			d.close()
		}
		return client, nil
	})
	if conn, err := d.DialContext(t.Context(), "tcp", "a:1"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dialled %v, %v, want it closed", conn, err)
	}
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its server reads %v, want EOF", err)
	}
	closes = false
	conn, err := d.DialContext(t.Context(), "tcp", "a:1")
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("it reads %v, want it closed", err)
	}
}
