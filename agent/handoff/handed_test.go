package handoff

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What is sealed in memory is received with its files, and each of them is another descriptor.
func TestReceive(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := &Files{}
	number, err := files.Give(w)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	packed, err := Pack(self, files, "body")
	if err != nil {
		t.Fatal(err)
	}
	state, err := seal(packed.text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Pwrite(state, []byte("x"), 0); err == nil {
		t.Error("a sealed state can be changed")
	}
	h, err := receive(Linux(), fmt.Sprintf("%d,,15+1,why, it says", state), self)
	if err != nil || string(h.Body) != `"body"` || h.Failure != "why, it says" || !slices.Equal(h.Signals, []syscall.Signal{15, 1}) {
		t.Fatalf("received %+v, %v", h, err)
	}
	if _, err := h.Files.Take(number+1000, "pipe"); err == nil {
		t.Error("a descriptor that was not handed over was taken")
	}
	pipe, err := h.Files.Take(number, "pipe")
	if err != nil {
		t.Fatal(err)
	}
	h.Accept()
	if _, err := pipe.WriteString("on"); err != nil {
		t.Error(err)
	}
	pipe.Close()
	if got, err := io.ReadAll(r); string(got) != "on" || err != nil { // it ends: no further descriptor is open
		t.Errorf("read %q, %v", got, err)
	}
}

// A variable that another program has set is refused.
func TestReceiveNothing(t *testing.T) {
	plain, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	file := func() int {
		fd, err := unix.Dup(int(plain.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for _, test := range []struct{ value, want string }{
		{"x", "invalid syntax"},
		{"1", "descriptor 1"},
		{"999999,", "bad file descriptor"},
		{fmt.Sprint(file()), "no sealed state"},
		{fmt.Sprintf("%d,zz", file()), "invalid syntax"},
		{fmt.Sprintf("%d,,9", file()), `signals "9"`},
	} {
		if _, err := receive(Linux(), test.value, self); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.value, err, test.want)
		}
	}
	plain.Close()
}

// An image that cannot take over is refused with its own words.
func TestAsk(t *testing.T) {
	own, err := NewAnswer("v9")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, test := range []struct{ name, script, want string }{
		{"good", `echo '{"formats":[1,2,3,4],"version":"v9","capabilities":"` + own.Capabilities + `","further":1}'`, ""},
		{"another format", `echo '{"formats":[1],"version":"v9","capabilities":"` + own.Capabilities + `"}'`, "it reads states of formats [1], this agent writes 4"},
		{"fewer capabilities", `echo '{"formats":[4],"version":"v9","capabilities":"0"}'`, map[bool]string{true: "", false: "lose capabilities"}[own.Capabilities == "0"]},
		{"other settings", `echo 'agent: --x: unknown' >&2; exit 2`, "agent: --x: unknown"},
		{"another program", `echo hello`, "does not say what it can adopt"},
		{"its death", `kill -9 $$`, "killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The image is executed by its descriptor, which a script's interpreter can open too.
			path := filepath.Join(dir, strings.ReplaceAll(test.name, " ", "-"))
			if err := os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1 $2\" = 'proxy --can-adopt' ] || exit 9\n"+test.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			image, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer image.Close()
			inherited(t, image)
			answer, err := Ask(context.Background(), image, []string{"agent", "proxy", "sidecar"}, nil)
			switch {
			case test.want == "" && (err != nil || answer.Version != "v9"):
				t.Errorf("got %+v, %v", answer, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), path+" cannot take over: ")):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	t.Run("no program", func(t *testing.T) {
		path := filepath.Join(dir, "text")
		if err := os.WriteFile(path, []byte("text"), 0o755); err != nil {
			t.Fatal(err)
		}
		image, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer image.Close()
		if _, err := Ask(context.Background(), image, []string{"agent", "proxy"}, nil); err == nil || !strings.Contains(err.Error(), "exec format error") {
			t.Errorf("got %v", err)
		}
	})
}

// inherited makes a script's descriptor survive its own execution: the interpreter opens it again.
func inherited(t *testing.T, file *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}
