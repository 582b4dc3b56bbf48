package envoy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVersionOfTheRealEnvoy(t *testing.T) {
	binary := envoyBinary(t)
	if got, err := HotRestartVersion(t.Context(), binary); got != "11.104" || err != nil {
		t.Errorf("HotRestartVersion: got %q, %v; want 11.104, which package hotrestart knows", got, err)
	}
}

func TestVersionTakesNothingElseForAnAnswer(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"nothing", "", "is no answer"},
		{"a shell's greeting", "echo hello", "is no answer"},
		{"two lines", "echo 11.104; echo 11.104", "is no answer"},
		{"hot restart not compiled in", "echo disabled", "is no answer"},
		{"failure", "echo 'no such flag' >&2; exit 1", "no such flag"},
		{"a release", "echo 11.104 >&2", ""},
		{"a version", "echo; echo 'envoy  version: 9e5/1.41.0-dev/Modified/DEBUG/BoringSSL'", "is no answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := HotRestartVersion(t.Context(), newProxy(t, test.script).Binary)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// A binary is asked once, another one in its place again, and a failure is no answer.
func TestVersionIsAskedOnce(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	answers := "echo x >> " + asked + "; echo 11.104"
	p := newProxy(t, answers)
	want := func(when, version string, times int) {
		t.Helper()
		got, err := p.version(t.Context(), p.Binary)
		lines, _ := os.ReadFile(asked)
		if got != version || (err != nil) != (version == "") || strings.Count(string(lines), "x") != times {
			t.Errorf("%s: %q, %v, asked %d times; want %q, %d", when, got, err, strings.Count(string(lines), "x"), version, times)
		}
	}
	want("at first", "11.104", 1)
	want("again", "11.104", 1)
	p.Binary = newProxy(t, "echo x >> "+asked+"; echo disabled").Binary
	want("one that fails", "", 2)
	want("it fails again", "", 3)
	p.Binary = newProxy(t, answers+"; true # another size").Binary
	want("another one", "11.104", 4)
	if err := os.Remove(p.Binary); err != nil {
		t.Fatal(err)
	}
	want("it is gone", "", 4)
}

func TestAskIsBounded(t *testing.T) {
	binary := newProxy(t, "exec sleep 60").Binary
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := ask(ctx, binary); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("ask: %v after %s, want the deadline of 20ms", err, time.Since(began))
	}
}

func TestValidate(t *testing.T) {
	binary := envoyBinary(t)
	for _, test := range []struct {
		name, bootstrap string
		args            []string
		want            string // "" for none
	}{
		{"good", `{}`, []string{"--cpuset-threads"}, ""},
		{"bad JSON", `{`, nil, "Unable to parse JSON as proto"},
		{"an unknown field", `{"nope": 1}`, nil, "nope"},
		{"a bad flag", `{}`, []string{"--nope"}, "--nope"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b.json")
			if err := os.WriteFile(path, []byte(test.bootstrap), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Validate(t.Context(), binary, path, "", Options{
				Concurrency: 1, LogLevel: "warning", DrainTime: time.Second, ParentShutdown: time.Minute, Extra: test.args,
			})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("Validate: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Validate: %v, want %q", err, test.want)
			case err != nil:
				t.Log(err)
			}
		})
	}
}
