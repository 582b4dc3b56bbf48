package sourcetest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// SecretStore is an empty store of secrets, and the source that is tested. Names are those of secrets in one namespace that the
// store chooses.
type SecretStore struct {
	Source    secret.Source
	Namespace string

	Put    func(name string) secret.Secret // stores a new certificate with its key, and returns both
	Delete func(name string)
	Spoil  func(name string) // makes the record of a secret malformed, or stores one that is

	// Break makes every read of the store fail, and Mend ends that.
	Break, Mend func()

	// Touch makes the store report a change when nothing has changed.
	Touch func()
}

// RunSecrets tests the source of a store. Each test starts a new store.
func RunSecrets(t *testing.T, start func(t *testing.T) SecretStore) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, r SecretStore)
	}{
		{"it syncs once, when it has sent all it knew", syncsSecrets},
		{"it sends what is added, changed and removed", changesSecrets},
		{"nothing is sent when nothing changes", staysQuietAboutSecrets},
		{"a second run sends everything again", runsSecretsAgain},
		{"it stops though nobody takes its update", stopsSecretsUnheard},
		{"a malformed record costs itself, and is named", malformedSecret},
		{"an error keeps the last good secrets, and shows", failsSecrets},
	} {
		t.Run(test.name, func(t *testing.T) {
			goroutines := goleak.IgnoreCurrent()
			r := start(t)
			test.run(t, r)
			goleak.VerifyNone(t, goroutines)
		})
	}
}

func syncsSecrets(t *testing.T, r SecretStore) {
	want := map[string]secret.Secret{"a": r.Put("a"), "b": r.Put("b")}
	run := followSecrets(t, r)
	run.untilSynced()
	run.want(want)
	run.quietly("after it has synced")
	want["c"] = r.Put("c")
	for !same(run.secrets(), want) {
		if run.next("the new secret").Synced {
			t.Error("it syncs a second time")
		}
	}
	run.stop()
}

func changesSecrets(t *testing.T, r SecretStore) {
	want := map[string]secret.Secret{"a": r.Put("a")}
	run := serveSecrets(t, r)
	defer run.stop()
	run.await(want)
	want["b"] = r.Put("b")
	run.await(want)
	want["a"] = r.Put("a")
	run.await(want)
	r.Delete("b")
	delete(want, "b")
	run.await(want)
	r.Delete("a")
	run.await(nil)
	run.awaitNoFault()
}

func staysQuietAboutSecrets(t *testing.T, r SecretStore) {
	r.Put("a")
	run := followSecrets(t, r)
	defer run.stop()
	run.untilSynced()
	r.Touch()
	run.quietly("though nothing changed")
}

func runsSecretsAgain(t *testing.T, r SecretStore) {
	want := map[string]secret.Secret{"a": r.Put("a")}
	for range 2 {
		goroutines := goleak.IgnoreCurrent()
		run := followSecrets(t, r)
		run.untilSynced()
		run.want(want)
		run.stop()
		goleak.VerifyNone(t, goroutines)
	}
}

func stopsSecretsUnheard(t *testing.T, r SecretStore) {
	r.Put("a")
	followSecrets(t, r).stop()
}

func malformedSecret(t *testing.T, r SecretStore) {
	want := map[string]secret.Secret{"good": r.Put("good"), "broken": r.Put("broken")}
	r.Spoil("never")
	run := serveSecrets(t, r)
	defer run.stop()
	run.await(want)
	run.awaitFault("never")
	r.Spoil("broken")
	run.awaitFault("broken")
	want["good"] = r.Put("good")
	run.await(want) // the last good form of the broken one stays
	want["broken"] = r.Put("broken")
	run.await(want)
	r.Delete("never")
	run.awaitNoFault()
}

func failsSecrets(t *testing.T, r SecretStore) {
	want := map[string]secret.Secret{"a": r.Put("a")}
	run := serveSecrets(t, r)
	defer run.stop()
	run.await(want)
	r.Break()
	run.awaitFault("")
	run.stays(want)
	r.Mend()
	want["b"] = r.Put("b")
	run.await(want)
	run.awaitNoFault()
}

// shown returns the secrets of the store's namespace that have a key, by name.
func (r SecretStore) shown(all map[secret.Name]secret.Secret) map[string]secret.Secret {
	out := map[string]secret.Secret{}
	for name, s := range all {
		if name.Namespace == r.Namespace && len(s.Key) > 0 {
			out[name.Name] = s
		}
	}
	return out
}

func same(got, want map[string]secret.Secret) bool {
	return maps.EqualFunc(got, want, func(a, b secret.Secret) bool {
		return bytes.Equal(a.Certificate, b.Certificate) && bytes.Equal(a.Key, b.Key)
	})
}

// followingSecrets is a run of a source whose updates the test receives one by one.
type followingSecrets struct {
	t       *testing.T
	r       SecretStore
	updates chan secret.Update
	done    chan error
	cancel  context.CancelFunc
	groups  map[string]secret.Group // as the updates left them
}

func followSecrets(t *testing.T, r SecretStore) *followingSecrets {
	ctx, cancel := context.WithCancel(t.Context())
	f := &followingSecrets{t, r, make(chan secret.Update), make(chan error, 1), cancel, map[string]secret.Group{}}
	go func() { f.done <- r.Source.Run(ctx, f.updates) }()
	return f
}

// stop ends the run, and applies no further update.
func (f *followingSecrets) stop() {
	f.t.Helper()
	f.cancel()
	ended(f.t, f.done)
}

func (f *followingSecrets) next(what string) secret.Update {
	f.t.Helper()
	select {
	case u := <-f.updates:
		maps.Copy(f.groups, u.Groups)
		return u
	case err := <-f.done:
		f.t.Fatalf("it ended with %v before %s", err, what)
	case <-time.After(long):
		f.t.Fatalf("it did not send %s", what)
	}
	return secret.Update{}
}

func (f *followingSecrets) untilSynced() {
	f.t.Helper()
	for !f.next("that it has synced").Synced {
	}
}

func (f *followingSecrets) quietly(when string) {
	f.t.Helper()
	select {
	case u := <-f.updates:
		f.t.Errorf("%s it sends %d groups: %v", when, len(u.Groups), slices.Sorted(maps.Keys(u.Groups)))
	case <-time.After(quiet):
	}
}

func (f *followingSecrets) secrets() map[string]secret.Secret {
	all := map[secret.Name]secret.Secret{}
	for _, group := range f.groups {
		maps.Copy(all, group.Secrets)
	}
	return f.r.shown(all)
}

func (f *followingSecrets) want(want map[string]secret.Secret) {
	f.t.Helper()
	for name, s := range f.secrets() {
		block, _ := pem.Decode(s.Certificate)
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !leaf.NotBefore.Equal(s.From) || !leaf.NotAfter.Equal(s.Until) {
			f.t.Errorf("the certificate of %s lives from %s to %s, want what it says, %v", name, s.From, s.Until, err)
		}
	}
	if got := f.secrets(); !same(got, want) {
		f.t.Errorf("the secrets are %v, want %v, each as it was put last", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// servingSecrets is a server of the source alone, with a source of services that has no services.
type servingSecrets struct {
	*serving
	r    SecretStore
	sets chan secret.Set // the newest
	set  map[string]secret.Secret
}

// SetSecrets keeps the newest set.
func (s *servingSecrets) SetSecrets(set secret.Set) {
	select {
	case <-s.sets:
	default:
	}
	s.sets <- set
}

func serveSecrets(t *testing.T, r SecretStore) *servingSecrets {
	ctx, cancel := context.WithCancel(t.Context())
	s := &servingSecrets{&serving{t: t, done: make(chan error, 1), cancel: cancel}, r, make(chan secret.Set, 1), nil}
	s.server = &discovery.Server{
		Secrets: map[string]secret.Source{"tested": r.Source}, Vault: s, Pusher: s.serving, Log: slog.New(slog.DiscardHandler),
	}
	go func() { s.done <- s.server.Run(ctx) }()
	return s
}

func (s *servingSecrets) take(set secret.Set) {
	all := map[secret.Name]secret.Secret{}
	for namespace, names := range set {
		for name, one := range names {
			all[secret.Name{Namespace: namespace, Name: name}] = one
		}
	}
	s.set = s.r.shown(all)
}

// await waits until the vault has these secrets and no others with a key.
func (s *servingSecrets) await(want map[string]secret.Secret) {
	s.t.Helper()
	for deadline := time.After(long); s.set == nil || !same(s.set, want); {
		select {
		case set := <-s.sets:
			s.take(set)
		case <-deadline:
			s.t.Fatalf("the secrets are %v, want %v, each as it was put last; %s", slices.Sorted(maps.Keys(s.set)), slices.Sorted(maps.Keys(want)),
				strings.Join(s.faults(), "; "))
		}
	}
}

// stays waits for a while, and fails if the secrets change.
func (s *servingSecrets) stays(want map[string]secret.Secret) {
	s.t.Helper()
	select {
	case set := <-s.sets:
		s.take(set)
	case <-time.After(quiet):
	}
	if !same(s.set, want) {
		s.t.Errorf("the secrets are %v, want %v", slices.Sorted(maps.Keys(s.set)), slices.Sorted(maps.Keys(want)))
	}
}
