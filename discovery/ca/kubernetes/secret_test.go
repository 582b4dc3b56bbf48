package kubernetes

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFiles(t *testing.T) ca.Files {
	t.Helper()
	f, err := ca.NewRoot(ca.RootName, ca.RootLife, begin)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func knownOf(t *testing.T, f ca.Files) known {
	t.Helper()
	a, err := ca.Read(f, begin)
	if err != nil {
		t.Fatal(err)
	}
	return known{ca.State{Authority: a, Own: a}, f}
}

// A root is made once, and only where none is trusted; what is known stays in use.
func TestDecide(t *testing.T) {
	mine, other := newFiles(t), newFiles(t)
	half := mine
	half.Key = nil
	secret := func(f ca.Files) *corev1.Secret { return secretOf("istio-system", "cacerts", f) }
	for _, row := range []struct {
		name    string
		before  known
		found   *corev1.Secret
		trusted bool
		make    bool
		used    *ca.Files
		want    string
	}{
		{"nothing is there", known{}, nil, false, true, nil, ""},
		{"a Secret is there", known{}, secret(mine), false, false, &mine, ""},
		{"a Secret and its roots are there", known{}, secret(mine), true, false, &mine, ""},
		{"the Secret is lost", known{}, nil, true, false, nil, "a second root is never made"},
		{"the Secret is deleted", knownOf(t, mine), nil, true, false, &mine, "was deleted"},
		{"the Secret is deleted, and no root was published", knownOf(t, mine), nil, false, false, &mine, "was deleted"},
		{"another one", knownOf(t, mine), secret(other), true, false, &mine, "has changed"},
		{"the same", knownOf(t, mine), secret(mine), true, false, &mine, ""},
		{"half of one", known{}, secret(half), false, false, nil, "ca-key.pem: has no key"},
		{"an empty one", known{}, &corev1.Secret{}, false, false, nil, "ca-cert.pem: has no certificate"},
	} {
		next, mustMake, err := decide(row.before, row.found, row.trusted, begin)
		switch {
		case mustMake != row.make, row.want == "" && err != nil, row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: make %t, %v; want %t, %q", row.name, mustMake, err, row.make, row.want)
		case (next.Authority != nil) != (row.used != nil), row.used != nil && !equal(next.files, *row.used):
			t.Errorf("%s: another authority is used", row.name)
		}
		if err != nil && strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: a key is in the error", row.name)
		}
	}
}

func TestDue(t *testing.T) {
	namespaces := map[string]bool{"a": true, "b": true, "c": true, "kube-system": true}
	found := map[string]held{"a": {roots: "r"}, "b": {roots: "old"}}
	for _, row := range []struct {
		name string
		last map[string]time.Time
		want string
	}{
		{"missing and changed ones, not those of Kubernetes", nil, "[b c] 0s"},
		{"one that was written is left alone for a time", map[string]time.Time{"b": begin.Add(-time.Second)}, "[c] 4s"},
		{"the first of two that wait", map[string]time.Time{"b": begin.Add(-time.Second), "c": begin.Add(-3 * time.Second)}, "[] 2s"},
		{"and is written again then", map[string]time.Time{"b": begin.Add(-5 * time.Second)}, "[b c] 0s"},
	} {
		all, next := due(namespaces, found, row.last, "r", begin)
		if got := fmt.Sprint(all, " ", next); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	o := configMapOf("b", "r", held{"old", "7", map[string]string{"team": "x"}})
	if o.ResourceVersion != "7" || o.Labels["team"] != "x" || o.Labels["istio.io/config"] != "true" || o.Data["root-cert.pem"] != "r" || o.Name != "istio-ca-root-cert" {
		t.Errorf("%+v", o)
	}
}

// The authority is used as soon as the Secret is read, and a fault is named while it lasts.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used []*ca.Authority
		api := &apiServer{}
		s := &Shared{
			In: At{"istio-system", "cacerts"}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Now: func() time.Time { return begin }, open: func(*kube.Client) (secrets, error) { return api, nil },
		}
		s.Changed = func() { used = append(used, s.State().Authority) }
		fault := func() string { return strings.Join(s.Lines(), "; ") }
		watches := map[string]*kube.Watch{}
		events := make(chan kube.Event)
		session := kube.NewSession(events, func(w *kube.Watch) func() { watches[w.Fields] = w; return func() {} })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.follow(ctx, session) }()
		synctest.Wait()
		mine := newFiles(t)
		send := func(name string, e kube.Event) {
			e.Of = watches["metadata.name="+name]
			events <- e
			synctest.Wait()
		}
		roots := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: RootsName}, Data: map[string]string{ca.RootsFile: string(mine.Roots)}}
		send(RootsName, kube.Event{List: true, All: []any{roots}})
		if fault() != "" || s.Signing() != nil {
			t.Errorf("before the Secret is listed: %q", fault())
		}
		send("cacerts", kube.Event{List: true})
		if !strings.Contains(fault(), "Secret istio-system/cacerts: is not there") || s.Signing() != nil {
			t.Errorf("without the Secret: %q", fault())
		}
		api.stored = secretOf("istio-system", "cacerts", mine)
		send("cacerts", kube.Event{Put: api.stored})
		if fault() != "" || s.Signing() == nil || len(used) != 1 || used[0] != s.State().Authority {
			t.Errorf("with the Secret: %q, %d", fault(), len(used))
		}
		api.stored = nil
		send("cacerts", kube.Event{Gone: secretOf("istio-system", "cacerts", mine)})
		if !strings.Contains(fault(), "was deleted") || s.Signing() == nil || len(used) != 1 {
			t.Errorf("after it was deleted: %q, %d", fault(), len(used))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
