package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const long = 30 * time.Second

// fake answers like an API server that has Services, and no streamed lists.
type fake struct {
	mu      sync.Mutex
	status  int // of every answer; 0 for a good one
	version int
	names   []string
	lists   int
	watches []chan string // events of the open ones, closed to end them
}

func (f *fake) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	f.mu.Lock()
	status, query := f.status, in.URL.Query()
	switch {
	case status != 0:
		f.mu.Unlock()
		refuse(out, status, strings.ReplaceAll(http.StatusText(status), " ", ""))
	case query.Get("sendInitialEvents") != "":
		f.mu.Unlock()
		refuse(out, http.StatusUnprocessableEntity, "Invalid")
	case query.Get("watch") != "":
		events := make(chan string)
		f.watches = append(f.watches, events)
		f.mu.Unlock()
		out.Header().Set("Content-Type", "application/json")
		out.(http.Flusher).Flush()
		for {
			select {
			case event, open := <-events:
				if !open {
					return
				}
				fmt.Fprintln(out, event)
				out.(http.Flusher).Flush()
			case <-in.Context().Done():
				return
			}
		}
	default:
		f.lists++
		var items []string
		for _, name := range f.names {
			items = append(items, object(name, f.version))
		}
		version := f.version
		f.mu.Unlock()
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}, "items": [%s]}`, version, strings.Join(items, ","))
	}
}

func refuse(out http.ResponseWriter, code int, reason string) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(code)
	fmt.Fprintf(out, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "not for you", "code": %d}`, reason, code)
}

func object(name string, version int) string {
	return fmt.Sprintf(`{"kind": "Service", "apiVersion": "v1", "metadata": {"name": %q, "namespace": "default", "resourceVersion": "%d", "managedFields": [{}]}}`, name, version)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// tell sends an event to the newest watch, as soon as there is one.
func (f *fake) tell(t *testing.T, event string) {
	t.Helper()
	for deadline := time.After(long); ; {
		var watch chan string
		f.set(func() {
			if len(f.watches) > 0 {
				watch = f.watches[len(f.watches)-1]
			}
		})
		select {
		case watch <- event:
			return
		case <-time.After(10 * time.Millisecond): // there may be a newer one
		case <-deadline:
			t.Fatal("nobody watches")
		}
	}
}

// following is a run of Follow.
type following struct {
	t      *testing.T
	events chan Event
	done   chan error
	stop   context.CancelFunc
}

func follow(t *testing.T, url string) *following {
	t.Helper()
	client, err := New(&rest.Config{Host: url}, "test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	f := &following{t, make(chan Event), make(chan error, 1), stop}
	w := &Watch{Resource: corev1.SchemeGroupVersion.WithResource("services"), Object: &corev1.Service{}, Strip: func(o any) {
		o.(*corev1.Service).ManagedFields = nil
	}}
	go func() { f.done <- client.Follow(ctx, w, f.events) }()
	t.Cleanup(func() {
		stop()
		client.Close()
	})
	return f
}

func (f *following) next() string {
	f.t.Helper()
	select {
	case e := <-f.events:
		name := func(o any) string {
			s := o.(*corev1.Service)
			if s.ManagedFields != nil {
				f.t.Errorf("%s is not stripped", s.Name)
			}
			return s.Name
		}
		switch {
		case e.List:
			out := "all"
			for _, o := range e.All {
				out += " " + name(o)
			}
			return out
		case e.Put != nil:
			return "put " + name(e.Put)
		default:
			return "gone " + e.Gone.(*corev1.Service).Name
		}
	case err := <-f.done:
		f.t.Fatalf("it ended with %v", err)
	case <-time.After(long):
		f.t.Fatal("nothing happens")
	}
	return ""
}

func (f *following) want(what string) {
	f.t.Helper()
	if got := f.next(); got != what {
		f.t.Fatalf("it tells %q, want %q", got, what)
	}
}

func event(kind, name string, version int) string {
	return fmt.Sprintf(`{"type": %q, "object": %s}`, kind, object(name, version))
}

// After a list come the changes. Only after a watch that is too old there is a new list.
func TestFollow(t *testing.T) {
	server := &fake{version: 1, names: []string{"a", "b"}}
	at := httptest.NewServer(server)
	defer at.Close()
	run := follow(t, at.URL)
	run.want("all a b")
	server.tell(t, event("ADDED", "c", 2))
	run.want("put c")
	server.tell(t, event("MODIFIED", "a", 3))
	run.want("put a")
	server.tell(t, event("DELETED", "b", 4))
	run.want("gone b")

	server.set(func() { // the server ends the watch, as it does every few minutes
		for _, w := range server.watches {
			close(w)
		}
		server.watches = nil
	})
	server.tell(t, event("ADDED", "d", 5))
	run.want("put d")
	server.set(func() {
		if server.lists != 1 {
			t.Errorf("there were %d lists, want one: the watch goes on where it ended", server.lists)
		}
	})

	server.set(func() { server.names, server.version = []string{"d"}, 9 })
	gone, err := json.Marshal(map[string]any{"type": "ERROR", "object": map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version",
	}})
	if err != nil {
		t.Fatal(err)
	}
	server.tell(t, string(gone))
	run.want("all d")
	server.tell(t, event("ADDED", "e", 10))
	run.want("put e")
	run.stop()
	if err := <-run.done; err != nil {
		t.Errorf("stopped, it returns %v", err)
	}
}

// Follow returns at once for a server that refuses or has never answered, and waits for one that has answered before.
func TestFollowGivesUp(t *testing.T) {
	refusing := httptest.NewServer(&fake{status: http.StatusForbidden})
	defer refusing.Close()
	absent := httptest.NewServer(&fake{})
	absent.Close()
	for url, want := range map[string]string{refusing.URL: "not for you", absent.URL: "refused"} {
		began := time.Now()
		select {
		case err := <-follow(t, url).done:
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "follow services: ") {
				t.Errorf("it ends with %v, want %s", err, want)
			}
			t.Logf("after %s", time.Since(began))
		case <-time.After(long):
			t.Errorf("it does not end, want %s", want)
		}
	}
}

// What is of one kind alone keeps no other from being followed: a refusal, or a definition whose webhook does not convert.
func TestFaultsOfOneKind(t *testing.T) {
	resource := schema.GroupResource{Resource: "gateways"}
	for what, test := range map[string]struct {
		err  error
		want bool
	}{
		"forbidden":                 {apierrors.NewForbidden(resource, "", errors.New("no")), true},
		"not converted":             {apierrors.NewInternalError(errors.New("conversion webhook for networking.istio.io/v1, Kind=Gateway failed: refused")), true},
		"storage is away":           {apierrors.NewInternalError(errors.New("etcdserver: no leader")), false},
		"the identity is not known": {apierrors.NewUnauthorized("who"), false},
		"no connection":             {errors.New("connection refused"), false},
	} {
		if got := ofKind(fmt.Errorf("follow gateways: %w", test.err)); got != test.want {
			t.Errorf("%s: of one kind: %t, want %t", what, got, test.want)
		}
	}
}

func TestFollowWaits(t *testing.T) {
	server := &fake{version: 1, names: []string{"a"}}
	at := httptest.NewServer(server)
	run := follow(t, at.URL)
	run.want("all a")
	server.tell(t, event("ADDED", "b", 2))
	run.want("put b")
	began := time.Now()
	at.Listener.Close() // before the connections, or a new one comes in between
	at.CloseClientConnections()
	select {
	case err := <-run.done:
		if took := time.Since(began); err == nil || took < Patience {
			t.Errorf("after %s it ends with %v, want an error after %s", took, err, Patience)
		}
	case <-time.After(long):
		t.Error("it does not end")
	}
}
