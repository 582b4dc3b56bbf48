package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// body is the state of an agent in memory.
type body struct {
	Upgrades int
	Files    map[string]int
}

// files of the agent, which each image has.
var agentFiles = []string{"lock", "port", "tie"}

// life runs one image until it ends, or is replaced.
func (m *machine) life() (err error, ended bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, ok := cause.(replacement); !ok {
				panic(cause)
			}
		}
	}()
	m.replaced = false
	own := map[string]int{} // descriptors of the files
	err = m.images().Run(m.value, func(h *Handed) (*Next, error) { return m.attempt(h, own) })
	return err, true
}

// attempt is what an agent does: it takes over or cannot, and some time later leaves for another image or is asked to stop.
func (m *machine) attempt(h *Handed, own map[string]int) (*Next, error) {
	if h == nil {
		for _, name := range agentFiles {
			own[name] = m.open(entry{file: name})
		}
	} else if err := m.takeOver(h, own); err != nil {
		return nil, err
	}
	m.strike()
	choice := m.choose(8)
	if choice == 0 {
		return nil, nil // it is asked to stop
	}
	files := &Files{kernel: new(Kernel)}
	*files.kernel = m.kernel()
	state := body{m.upgrades, map[string]int{}}
	for _, name := range agentFiles {
		given, err := files.Give(number(own[name]))
		if err != nil {
			m.fault("give %s: %v", name, err)
		}
		state.Files[name] = given
		_ = files.kernel.Close(own[name]) // as what ends with a run is
	}
	handed, err := Pack(self, files, state)
	if err != nil {
		m.fault("pack: %v", err)
	}
	next := &Next{Handed: handed, Image: m.program(choice)}
	if m.choose(8) == 7 {
		next.Unable = errors.New("unable by now")
	}
	return next, nil
}

func (m *machine) takeOver(h *Handed, own map[string]int) error {
	var state body
	if err := json.Unmarshal(h.Body, &state); err != nil || state.Upgrades != m.upgrades {
		m.fault("the state is %s, want %d upgrades: %v", h.Body, m.upgrades, err)
	}
	switch {
	case strings.Contains(h.Failure, "unfit"):
		m.returned++
	case h.Failure != "":
		m.stayed++
	}
	m.strike()
	switch m.choose(8) {
	case 6:
		return errors.New("unfit by nature")
	case 7:
		panic("unfit by nature")
	}
	for name, given := range state.Files {
		file, err := h.Files.Take(given, name)
		if err != nil {
			m.fault("take %s: %v", name, err)
			continue
		}
		own[name] = int(file.Fd())
	}
	if m.choose(8) == 7 {
		return errors.New("unfit at last")
	}
	h.Accept()
	m.upgrades, m.heard, m.came = m.upgrades+1, m.heard+len(m.came), nil
	m.inventory(own)
	return nil
}

// inventory: an image that has taken over has each file once, and nothing else that would go along. A program may be open.
func (m *machine) inventory(own map[string]int) {
	var have []string
	for fd, e := range m.table {
		switch {
		case e.inherit:
			m.fault("descriptor %d goes to children: %+v", fd, *e)
		case e.text != nil:
			m.fault("descriptor %d is a state still", fd)
		case e.file != "":
			have = append(have, e.file)
			if own[e.file] != fd {
				m.fault("descriptor %d is %s, which has %d", fd, e.file, own[e.file])
			}
		}
	}
	if slices.Sort(have); !slices.Equal(have, agentFiles) {
		m.fault("it has %v, want %v", have, agentFiles)
	}
}

// dance runs an agent through its images until it ends, and returns how.
func dance(script []byte) (m *machine, err error) {
	m = &machine{script: script, table: map[int]*entry{}, last: lowest, image: 1}
	for range 10_000 {
		if err, ended := m.life(); ended {
			return m, err
		}
	}
	return m, errors.New("it does not end")
}

// sound judges how an agent has ended.
func (m *machine) sound(t *testing.T, err error) {
	t.Helper()
	if err != nil && !strings.Contains(err.Error(), "return to the image before: ") {
		t.Errorf("it ends with %v", err)
	}
	if len(m.faults) > 0 {
		t.Errorf("after %d upgrades: %q", m.upgrades, m.faults)
	}
	if known := m.heard + len(m.came); err == nil && known != m.sent {
		t.Errorf("%d signals were sent, %d arrived", m.sent, known)
	}
}

// FuzzImages: images replace each other in memory, on a kernel that fails now and then. Each has every file once and the same state, none
// leaves a descriptor, and no signal is lost; the process ends if it was asked to, or if neither image could go on.
func FuzzImages(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("10100200"))
	f.Fuzz(func(t *testing.T, script []byte) {
		m, err := dance(script)
		m.sound(t, err)
	})
}

// The same for scripts by chance, in which all that may happen does.
func TestImages(t *testing.T) {
	upgrades, returned, stayed, ended := 0, 0, 0, 0
	for seed := range uint64(3000) {
		source := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 300)
		for i := range script {
			script[i] = byte(source.Uint32())
		}
		m, err := dance(script)
		m.sound(t, err)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		upgrades, returned, stayed = upgrades+m.upgrades, returned+m.returned, stayed+m.stayed
		if err != nil {
			ended++
		}
	}
	t.Logf("%d upgrades; %d images returned to the one before, %d times no image was executed, %d times neither went on", upgrades, returned, stayed, ended)
	if upgrades < 1000 || returned < 1000 || stayed < 1000 || ended < 100 {
		t.Error("too little has happened")
	}
}

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
