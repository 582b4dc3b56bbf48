package envoy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// Envoy reads a bootstrap that cannot be written to a file from memory, YAML as JSON, with the epoch's own admin.
func TestRunKeepsTheBootstrapInMemory(t *testing.T) {
	for format, text := range map[string]string{"json": `{"node":{"id":"x"}}`, "yaml": "node: {id: x}"} {
		t.Run(format, func(t *testing.T) {
			seen := filepath.Join(t.TempDir(), "seen")
			p := newProxy(t, `echo "$*" >`+seen+`; cat "$2" >>`+seen)
			blocked := filesOf(room{p.Slot.Dir(), p.Slot.token}, "rev3", format).bootstrap
			must(t, os.MkdirAll(filepath.Join(blocked, "x"), 0o755)) // no file can take its place
			exit := p.Run(agent.Launch{Epoch: 3, Config: agent.Config{Bootstrap: text, Format: format}}, nil, ignore)
			got, err := os.ReadFile(seen)
			must(t, err)
			if exit.Code != 0 || !strings.HasPrefix(string(got), "--config-path /dev/fd/4 --") ||
				strings.Contains(string(got), "--config-yaml") ||
				!strings.Contains(string(got), `"admin-rev3`) && !strings.Contains(string(got), `/admin-rev3-`+p.Slot.token+`.sock"`) ||
				!strings.Contains(strings.ReplaceAll(string(got), " ", ""), `"node":{"id":"x"}`) {
				t.Errorf("exit %v, Envoy saw:\n%s", exit, got)
			}
			must(t, os.RemoveAll(blocked))
			leavesNothing(t, p)
		})
	}
}

// If no socket can be made in the slot, it is made elsewhere, and removed at the end.
func TestRoomIsElsewhere(t *testing.T) {
	s := claim(t, t.TempDir())
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100)) // too long for the path of a socket
	must(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	if in, err := s.Room(); in.dir != s.Dir() || in.token != s.token || err != nil {
		t.Fatalf("Room: %s, %v; want the slot", in, err)
	}
	blocked := filepath.Join(s.Dir(), ".envoy-0")
	must(t, os.MkdirAll(filepath.Join(blocked, "x"), 0o755)) // in the way of every attempt
	in, err := s.Room()
	must(t, err)
	if again, err := s.Room(); in.dir == s.Dir() || in.token != s.token || again != in || err != nil {
		t.Errorf("Room: %s, then %s, %v; want one place beside the slot", in, again, err)
	}
	family := hotrestart.Sockets{Dir: in.dir, Token: in.token, BaseID: newBaseID(t)}
	touch(t, family.Path("parent", 0))
	must(t, s.sweep(family.BaseID))
	if tried, err := os.ReadDir(long); len(tried) > 0 || err != nil {
		t.Errorf("%v, %v are left where no socket could be made", tried, err)
	}
	must(t, os.RemoveAll(blocked))
	must(t, s.Release())
	if _, err := os.Stat(in.dir); err == nil {
		t.Errorf("%s is left", in.dir)
	}
}

// An Envoy that served is started again, even if its path now leads to another file, or to none.
func TestTheLastGoodBinaryIsKept(t *testing.T) {
	p := newProxy(t, "exit 7")
	good, err := Fingerprint(p.Binary)
	must(t, err)
	config := someConfig
	config.Binary = good
	c := &process{Proxy: p, launch: agent.Launch{Config: config}}
	if got := p.choose(c); got != p.Binary {
		t.Errorf("first %s is started, want %s", got, p.Binary)
	}
	p.served(c)
	for name, spoil := range map[string]func() error{
		"replaced": func() error {
			must(t, os.WriteFile(p.Binary+"~", []byte("rubbish"), 0o755))
			return os.Rename(p.Binary+"~", p.Binary)
		},
		"removed": func() error { return os.RemoveAll(p.Binary) },
	} {
		must(t, spoil())
		if exit := p.Run(agent.Launch{Config: config}, nil, ignore); exit.Code != 7 {
			t.Errorf("%s: %v, want what the last good one does", name, exit)
		}
	}
}
