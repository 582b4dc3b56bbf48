package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// fakeSecrets sends the updates of the test, until it is broken.
type fakeSecrets struct{ fakeOf[secret.Update] }

func newFakeSecrets() fakeSecrets { return fakeSecrets{newFakeOf[secret.Update]()} }

// tell sends "key=NAME" words; a word without = is a key whose record is malformed, with - before it one that is
// removed.
func (f fakeSecrets) tell(words string, synced bool) {
	u := secret.Update{Groups: map[string]secret.Group{}, Synced: synced}
	for _, word := range strings.Fields(words) {
		key, name, good := strings.Cut(word, "=")
		switch gone, is := strings.CutPrefix(key, "-"); {
		case is:
			u.Groups[gone] = secret.Group{}
		case good:
			u.Groups[key] = secret.Group{Secrets: map[secret.Name]secret.Secret{{Namespace: "shop", Name: name}: {Certificate: []byte(key)}}}
		default:
			u.Groups[key] = secret.Group{Faults: []string{"half a key"}}
		}
	}
	f.updates <- u
}

// vault keeps the sets that it received.
type vault struct{ sets []string }

func (v *vault) SetSecrets(all secret.Set) {
	var out []string
	for namespace, names := range all {
		for name, s := range names {
			out = append(out, fmt.Sprintf("%s/%s=%s", namespace, name, s.Certificate))
		}
	}
	slices.Sort(out)
	v.sets = append(v.sets, strings.Join(out, " "))
}

func (v *vault) want(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(v.sets, want) {
		t.Errorf("%s: the vault got %q, want %q", what, v.sets, want)
	}
	v.sets = nil
}

// serveSecrets runs a server of one registry, which has synced, and of sources of secrets.
func serveSecrets(t *testing.T, timeout time.Duration, sources map[string]secret.Source) (*Server, *vault, *recorder, *bytes.Buffer) {
	t.Helper()
	v, r, log := &vault{}, &recorder{start: time.Now()}, new(bytes.Buffer)
	registry := newFake()
	s := &Server{
		Sources: map[string]Source{"registry": registry}, Pusher: r, Secrets: sources, Vault: v, Log: slog.New(slog.NewTextHandler(log, nil)),
		Debounce: Debounce{After: 100 * time.Millisecond, Max: time.Second}, Patience: Patience{Sync: timeout},
		random: func() float64 { return 0 },
	}
	start(t, s)
	registry.updates <- update{"x": "0"}.model(true)
	synctest.Wait()
	return s, v, r, log
}

func status(s *Server, name string) SourceStatus {
	synctest.Wait()
	for _, status := range s.Statuses() {
		if status.Name == name {
			return status
		}
	}
	return SourceStatus{}
}

// The first mesh waits for secrets, since a proxy that requests an existing one must not get the answer that there is
// none. A secret that cannot be read keeps its last good form; secrets that a source sent before it failed are served.
func TestSecretsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, kubernetes := newFakeSecrets(), newFakeSecrets()
		s, v, r, log := serveSecrets(t, syncTimeout, map[string]secret.Source{"files": files, "kubernetes": kubernetes})
		files.tell("a=door b=gate", true)
		v.want(t, "while one is waited for")
		if s.Synced() || len(r.pushes) > 0 {
			t.Error("a mesh is pushed before the secrets are there")
		}
		kubernetes.tell("uid=door", true)
		v.want(t, "once both have synced", "shop/door=a shop/gate=b")
		if !s.Synced() {
			t.Error("no mesh is pushed")
		}
		if got := status(s, "kubernetes"); len(got.Shadowed) != 1 || got.State != SourceSynced ||
			!strings.Contains(strings.Join(got.Lines(), "\n"), "source kubernetes: uid: the secret shop/door is not served, source files has one of that name") {
			t.Errorf("the status of the one that lost: %+v", got)
		}

		files.tell("a", false)
		v.want(t, "a malformed one stays")
		if got := status(s, "files"); got.Objects != 2 || !slices.Equal(got.Malformed, []string{"a: half a key"}) {
			t.Errorf("with a malformed one: %+v", got)
		}
		files.tell("a=door", false)
		v.want(t, "an equal one is no news")
		if got := status(s, "files"); len(got.Malformed) > 0 {
			t.Errorf("mended: %+v", got)
		}
		files.tell("-a", false)
		v.want(t, "one that is gone", "shop/door=uid shop/gate=b")

		files.broken <- errors.New("no answer")
		v.want(t, "after a failure")
		if got := status(s, "files"); got.State != SourceFailed || !strings.Contains(got.Error, "no answer") || got.Objects != 1 {
			t.Errorf("failed: %+v", got)
		}
		pass(firstDelay)
		files.tell("a=door", false)
		v.want(t, "while it syncs again", "shop/door=a shop/gate=b")
		files.tell("", true)
		v.want(t, "what it has no longer goes", "shop/door=a")
		if got := status(s, "files"); got.State != SourceSynced || got.Restarts != 1 {
			t.Errorf("restarted: %+v", got)
		}
		for _, want := range []string{
			"source of secrets failed, its last secrets are served", "secret not read, the last one stays", "secret is read again", "two sources have one secret",
		} {
			if strings.Count(log.String(), want) == 0 {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
	})
}

// A source that never syncs delays the others until its deadline, no longer.
func TestSecretsThatNeverSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, authority := newFakeSecrets(), newFakeSecrets()
		s, v, _, _ := serveSecrets(t, 30*time.Second, map[string]secret.Source{"files": files, "authority": authority})
		files.tell("a=door", true)
		pass(29 * time.Second)
		if s.Synced() {
			t.Error("synced before the deadline")
		}
		pass(2 * time.Second)
		v.want(t, "after the deadline", "shop/door=a")
		if !s.Synced() || !status(s, "authority").Late {
			t.Errorf("after the deadline: synced %t, %+v", s.Synced(), status(s, "authority"))
		}
		authority.tell("uid=gate", true)
		v.want(t, "it syncs late", "shop/door=a shop/gate=uid")
		if status(s, "authority").Late {
			t.Error("it is late still")
		}
	})
}

// Sources of secrets are added and removed while the server runs. One that replaces another takes over its secrets, and
// those that it does not have are removed once it has synced.
func TestSecretSourcesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, other, next := newFakeSecrets(), newFakeSecrets(), newFakeSecrets()
		s, v, _, log := serveSecrets(t, syncTimeout, map[string]secret.Source{"files": files})
		files.tell("a=door b=gate", true)
		v.want(t, "at the start", "shop/door=a shop/gate=b")

		s.AddSecrets("kubernetes", other)
		other.tell("uid=lock", false)
		v.want(t, "another was added", "shop/door=a shop/gate=b shop/lock=uid")
		if got := status(s, "kubernetes"); got.State != SourceSyncing || got.Late {
			t.Errorf("before it has synced: %+v", got)
		}
		pass(syncTimeout + time.Second)
		if got := status(s, "kubernetes"); !got.Late {
			t.Errorf("after its deadline: %+v", got)
		}

		s.AddSecrets("files", next)
		v.want(t, "one is replaced")
		next.tell("c=door", false)
		v.want(t, "the new one has sent a secret", "shop/door=a shop/gate=b shop/lock=uid")
		next.tell("", true)
		v.want(t, "the new one has synced", "shop/door=c shop/lock=uid")
		if got := status(s, "files"); got.State != SourceSynced || got.Restarts != 0 || got.Objects != 1 {
			t.Errorf("replaced: %+v", got)
		}

		s.RemoveSecrets("kubernetes")
		v.want(t, "one was removed", "shop/door=c")
		s.RemoveSecrets("never")
		s.RemoveSecrets("files")
		v.want(t, "the last was removed", "")
		if got := status(s, "files"); got.Name != "" {
			t.Errorf("a source that was removed has a status: %+v", got)
		}
		if got := strings.Count(log.String(), "source of secrets removed"); got != 2 {
			t.Errorf("%d removals are logged, want 2:\n%s", got, log)
		}
		for name, source := range map[string]fakeSecrets{"files": files, "next": next, "kubernetes": other} {
			select {
			case source.updates <- secret.Update{}:
				t.Errorf("%s still runs", name)
			default:
			}
		}
	})
}

// The first mesh waits for a source that is added before Run, and no longer waits for one that is removed meanwhile.
func TestTheFirstMeshWaitsForSecretsThatWereAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, silent := newFakeSecrets(), newFakeSecrets()
		s, v, _, _ := serveSecrets(t, syncTimeout, map[string]secret.Source{"files": files, "silent": silent})
		files.tell("a=door", true)
		v.want(t, "while one is silent")
		if s.Synced() {
			t.Error("a mesh is pushed")
		}
		s.RemoveSecrets("silent")
		v.want(t, "once the silent one was removed", "shop/door=a")
		if !s.Synced() {
			t.Error("no mesh is pushed")
		}
	})
}

// Without a source of secrets the vault is left alone until one is added.
func TestNoSecretSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, v, _, _ := serveSecrets(t, syncTimeout, nil)
		v.want(t, "without a source")
		if !s.Synced() {
			t.Error("no mesh is pushed")
		}
		files := newFakeSecrets()
		s.AddSecrets("files", files)
		files.tell("a=door", true)
		v.want(t, "with one", "shop/door=a")
	})
}
