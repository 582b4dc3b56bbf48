package status

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A socket whose file is removed, replaced or moved away is opened again, and one that is in its place is not. Open connections stay.
func TestLasting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slot")
	path := filepath.Join(dir, "socket")
	make := func() error { return os.MkdirAll(dir, 0o700) }
	if err := make(); err != nil {
		t.Fatal(err)
	}
	socket, err := openSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newLasting(socket, Place{Path: path, Remake: make, Log: slog.New(slog.DiscardHandler)})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	echoes := func(conn net.Conn) {
		t.Helper()
		text := []byte("x")
		_, err1 := conn.Write(text)
		if _, err2 := io.ReadFull(conn, text); err1 != nil || err2 != nil {
			t.Errorf("no echo: %v, %v", err1, err2)
		}
	}
	kept := dial()
	for _, test := range []struct {
		name  string
		harm  func() error
		again bool
	}{
		{"nothing", func() error { return nil }, false},
		{"its mode", func() error { return os.Chmod(path, 0o666) }, false},
		{"the file is removed", func() error { return os.Remove(path) }, true},
		{"nothing since", func() error { return nil }, false},
		{"the directory is removed", func() error { return os.RemoveAll(dir) }, true},
		{"the directory is moved away", func() error { return os.Rename(dir, dir+"-aside") }, true},
		{"another directory is in its place", func() error {
			return errors.Join(os.Rename(dir, dir+"-aside-2"), os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600))
		}, true},
	} {
		if err := test.harm(); err != nil {
			t.Fatal(err)
		}
		if again, err := l.look(); again != test.again || err != nil {
			t.Errorf("%s: opened again %t, want %t: %v", test.name, again, test.again, err)
		}
		echoes(dial())
		echoes(kept)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("its file is left")
	}
}
