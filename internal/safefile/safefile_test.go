package safefile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A read ends at once and within its limit, for any kind of file.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("text"), 0o600), os.WriteFile(at("empty"), nil, 0o600),
		os.WriteFile(at("most"), nil, 0o600), os.Truncate(at("most"), 2<<20),
		os.WriteFile(at("long"), nil, 0o600), os.Truncate(at("long"), 2<<20+1),
		os.Symlink(at("file"), at("link")), os.Symlink("/dev/zero", at("zero")), os.Symlink(at("nothing"), at("dangling")),
		os.Symlink(at("loop"), at("loop")), syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for name, want := range map[string]string{"file": "text", "link": "text", "empty": ""} {
		if data, err := Read(at(name), 2<<20); string(data) != want || err != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if data, err := Read(at("most"), 2<<20); len(data) != 2<<20 || err != nil {
		t.Errorf("a file of the most bytes: %d, %v", len(data), err)
	}
	for name, want := range map[string]string{
		"long":   "read " + at("long") + ": is too long: it has 2097153 bytes, want at most 2 MiB",
		"zero":   "read " + at("zero") + ": is a device, want a file",
		"pipe":   "read " + at("pipe") + ": is a pipe, want a file",
		"socket": "read " + at("socket") + ": is a socket, want a file",
		"":       "read " + dir + ": is a directory, want a file",
		"loop":   "too many levels of symbolic links",
	} {
		if data, err := Read(at(name), 2<<20); data != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d bytes, %v; want %s", name, len(data), err, want)
		}
	}
	if _, err := Read(at("file"), 3); !errors.Is(err, ErrTooLong) || !strings.HasSuffix(err.Error(), "it has 4 bytes, want at most 3 bytes") {
		t.Errorf("with a bound of 3 bytes: %v", err)
	}
	for _, name := range []string{"missing", "dangling"} {
		if _, err := Read(at(name), 9); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it does not exist", name, err)
		}
	}
}

// A file that another process writes is refused, never returned in part.
func TestReadOfAFileThatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if n > 50<<20 { // so that the disk does not fill
				done <- errors.New("the file was read, while it grew, without a fault")
				return
			}
			if _, err := writer.Write([]byte("x")); err != nil {
				done <- err
				return
			}
		}
	}()
	for {
		_, err := Read(path, 1<<30)
		if errors.Is(err, ErrChanged) {
			break
		}
		if err != nil {
			t.Error(err)
			break
		}
		if len(done) > 0 {
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := Read(path, 1<<20); !errors.Is(err, ErrTooLong) {
		t.Errorf("the file that grew beyond the bound: %v", err)
	}
}
