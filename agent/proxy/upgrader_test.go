package proxy

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/agent/handoff"
)

// The path of the start is absolute, with its links; a name is looked for in PATH. What does not lead to the running program is not believed.
func TestStartPath(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link, other := filepath.Join(dir, "agent"), filepath.Join(dir, "other", "agent")
	if err := errors.Join(os.Symlink(self, link), os.Mkdir(filepath.Dir(other), 0o755), os.WriteFile(other, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	running, err := os.Readlink(selfPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, search, want string
	}{
		{link, "", link},
		{"./agent", "", link},
		{"agent", "/nowhere:" + dir, link},
		{"agent", filepath.Dir(other) + ":" + dir, link},
		{"agent", "", running},
		{"agent", "/nowhere", running},
		{other, "", running},
		{filepath.Join(dir, "gone"), "", running},
		{"", "", running},
	} {
		if got := startPath(test.name, test.search); got != test.want {
			t.Errorf("%q, PATH %q: got %s, want %s", test.name, test.search, got, test.want)
		}
	}
}

// An agent that can never be replaced asks nobody, leaves nothing, and says why.
func TestUnableToBeReplaced(t *testing.T) {
	u := &upgrader{
		able: func() error { return errors.New("built otherwise") },
		ask: func(context.Context, *os.File, []string, []string) (handoff.Answer, error) {
			t.Error("another image was asked")
			return handoff.Answer{}, nil
		},
		leave: func(context.Context) error {
			t.Error("the supervisor leaves")
			return nil
		},
		log: slog.New(slog.DiscardHandler),
	}
	_, err := u.upgrade(t.Context(), os.Args[0])
	if told := u.upgrades(); err == nil || told.Failure != "built otherwise" || told.Pending != "" || told.Count != 0 {
		t.Errorf("got %v, told %+v", err, told)
	}
}
