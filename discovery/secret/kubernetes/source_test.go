package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reading is one run of the source.
type reading struct {
	t       *testing.T
	source  *Source
	run     *run
	events  chan kube.Event
	updates chan secret.Update
	watches map[string]*kube.Watch // those that run, by namespace and selector
}

func startReading(t *testing.T, source *Source) *reading {
	r := &reading{t: t, source: source, events: make(chan kube.Event), updates: make(chan secret.Update), watches: map[string]*kube.Watch{}}
	r.run = newRun(source, kube.NewSession(r.events, func(w *kube.Watch) func() {
		r.watches[w.Namespace+" "+w.Fields] = w
		return func() { delete(r.watches, w.Namespace+" "+w.Fields) }
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run.tell(ctx, r.updates)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	wake(source.changed)
	synctest.Wait()
	return r
}

// looks sends the present form of a Secret in the API server.
func (r *reading) looks(name string, e kube.Event) {
	r.t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	if e.Of = r.watches[namespace+" metadata.name="+name]; e.Of == nil {
		r.t.Fatalf("%s/%s is not read, but %v", namespace, name, slices.Sorted(maps.Keys(r.watches)))
	}
	r.events <- e
	synctest.Wait()
}

// told returns the next update: "+" for a served secret, "!" for a fault, "-" for a removed secret.
func (r *reading) told() (out string) {
	r.t.Helper()
	synctest.Wait()
	select {
	case u := <-r.updates:
		for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
			g := u.Groups[key]
			for _, name := range slices.SortedFunc(maps.Keys(g.Secrets), func(a, b secret.Name) int { return strings.Compare(a.String(), b.String()) }) {
				out += fmt.Sprintf("+%s %v ", name, g.Secrets[name].Accounts)
			}
			for _, fault := range g.Faults {
				out += "!" + key + " " + fault + " "
			}
			if len(g.Secrets)+len(g.Faults) == 0 {
				out += "-" + key + " "
			}
		}
		if !u.Synced {
			r.t.Error("an update is not synced")
		}
		return strings.TrimSpace(out)
	default:
		return "nothing"
	}
}

func (r *reading) want(want string) {
	r.t.Helper()
	if got := r.told(); got != want {
		r.t.Errorf("it tells %q, want %q", got, want)
	}
}

func want(object string) secret.Wanted {
	namespace, name, _ := strings.Cut(object, "/")
	return secret.Wanted{
		Object: secret.Name{Namespace: namespace, Name: name}, As: secret.Name{Namespace: "gw", Name: "as-" + name}, Accounts: []string{"ingress"}, Pair: true,
	}
}

func secretOf(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// The wanted Secrets are read, and no others. A Secret that becomes malformed or is removed keeps its last good form,
// and is reported.
func TestSource(t *testing.T) {
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	id, err := authority.Issue("shop.test", 1)
	if err != nil {
		t.Fatal(err)
	}
	good := func(name string) *corev1.Secret {
		return secretOf(name, map[string][]byte{"tls.crt": id.Chain, "tls.key": id.Key})
	}
	synctest.Test(t, func(t *testing.T) {
		source := New(nil)
		r := startReading(t, source)
		r.want("nothing") // Want was not called yet
		source.Want([]secret.Wanted{want("shop/a"), want("shop/b")})
		synctest.Wait()
		r.looks("shop/a", kube.Event{List: true, All: []any{good("a")}})
		r.want("nothing") // b was not read
		r.looks("shop/b", kube.Event{List: true})
		r.want("+gw/as-a [ingress] !Secret/shop/b is not there")
		if known := source.Known(); known[want("shop/a").Object] != "" || known[want("shop/b").Object] != "is not there" {
			t.Errorf("known is %v", known)
		}
		r.looks("shop/b", kube.Event{Put: good("b")})
		r.want("+gw/as-b [ingress]")

		r.looks("shop/a", kube.Event{Put: secretOf("a", map[string][]byte{"tls.crt": id.Chain, "tls.key": []byte("half")})})
		if got := r.told(); !strings.HasPrefix(got, "!Secret/shop/a cannot be used, of tls.crt and tls.key: ") || strings.Contains(got, "half") {
			t.Errorf("it tells %q", got)
		}
		r.looks("shop/a", kube.Event{Gone: good("a")})
		r.want("!Secret/shop/a is not there")
		r.looks("shop/b", kube.Event{Refused: errors.New("secrets is forbidden")})
		r.want("!Secret/shop/b cannot be read: secrets is forbidden")
		if known := source.Known(); known[want("shop/a").Object] != "" || known[want("shop/b").Object] != "" {
			t.Errorf("known is %v, want that both are served on", known)
		}

		source.Want([]secret.Wanted{want("shop/b"), want("bank/c")})
		synctest.Wait()
		if got := fmt.Sprint(slices.Sorted(maps.Keys(r.watches))); got != "[bank metadata.name=c shop metadata.name=b]" {
			t.Errorf("it reads %s", got)
		}
		r.looks("bank/c", kube.Event{List: true, All: []any{secretOf("c", map[string][]byte{"ca.crt": id.Roots})}})
		r.want("!Secret/bank/c has no tls.crt and tls.key -Secret/shop/a")
	})
}

// Istio's own keys are read too, and roots beside a certificate or alone.
func TestRead(t *testing.T) {
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	id, err := authority.Issue("shop.test", 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"tls":        {map[string][]byte{"tls.crt": id.Chain, "tls.key": id.Key, "ca.crt": id.Roots}, "gw/as-a-cacert=roots gw/as-a=pair"},
		"generic":    {map[string][]byte{"cert": id.Chain, "key": id.Key, "cacert": id.Roots}, "gw/as-a-cacert=roots gw/as-a=pair"},
		"roots":      {map[string][]byte{"cacert": id.Roots}, "gw/as-a-cacert=roots gw/as-a=roots"},
		"bad roots":  {map[string][]byte{"cert": id.Chain, "key": id.Key, "cacert": id.Key}, "has no certificate in ca.crt, want PEM"},
		"half":       {map[string][]byte{"cert": id.Chain}, "cannot be used, of tls.crt and tls.key: "},
		"nothing":    {nil, "has neither tls.crt with tls.key nor ca.crt"},
		"other keys": {map[string][]byte{"token": id.Key}, "has neither tls.crt with tls.key nor ca.crt"},
	} {
		w := want("shop/a")
		w.Pair = false
		object := secretOf("a", row.data)
		object.Labels, object.Annotations = map[string]string{"a": "b"}, map[string]string{namespacesAnnotation: " bank\nshop", "a": "b"}
		strip(object)
		secrets, err := read(object, w)
		var got []string
		for name, s := range secrets {
			what := "roots"
			if len(s.Key) > 0 && s.From.Before(s.Until) && time.Until(s.Until) > 0 {
				what = "pair"
				if fmt.Sprint(s.Namespaces, object.Labels, len(object.Annotations)) != "[bank shop] map[] 1" {
					t.Errorf("%s: the key is for the rules of %q, of labels and annotations %v and %v are left", name, s.Namespaces, object.Labels, object.Annotations)
				}
			}
			got = append(got, name.String()+"="+what)
		}
		slices.Sort(got)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, row.want) {
			t.Errorf("%s: %s, want %s", name, text, row.want)
		}
	}
}
