package kube

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// The rest of a lease is that of the clock that leaves less of it: the monotonic one stands still in a suspended machine, and
// the wall clock may be set back.
func TestLeftAt(t *testing.T) {
	renewed := time.Now()
	wall := func(d time.Duration) time.Time { return renewed.Round(0).Add(d) } // a time without a monotonic reading
	for name, test := range map[string]struct {
		renewed, now time.Time
		want         time.Duration
	}{
		"not held":                  {time.Time{}, renewed, 0},
		"just renewed":              {renewed, renewed, renewalTime},
		"a while ago":               {renewed, renewed.Add(4 * second), renewalTime - 4*second},
		"over":                      {renewed, renewed.Add(renewalTime), 0},
		"frozen":                    {renewed, renewed.Add(time.Minute), renewalTime - time.Minute},
		"suspended: the wall clock": {renewed, wall(time.Minute), renewalTime - time.Minute},
	} {
		if got := leftAt(test.renewed, test.now); got != test.want {
			t.Errorf("%s: %s is left, want %s", name, got, test.want)
		}
	}
	back := time.Now() // one hour earlier by the wall clock cannot be made: Add moves both clocks
	if got := elapsed(back, wall(-time.Hour)); got > 0 {
		t.Errorf("a wall clock that was set back says that %s have passed", got)
	}
}

// An apiServer in memory: it takes what it is sent, and keeps the methods of writes.
type recorder struct {
	writes []string
	hang   chan struct{} // while it is not nil, writes wait for it, or for their end
}

func (r *recorder) RoundTrip(in *http.Request) (*http.Response, error) {
	if in.Method != http.MethodGet {
		if r.hang != nil {
			select {
			case <-r.hang:
			case <-in.Context().Done():
				return nil, context.Cause(in.Context())
			}
		}
		r.writes = append(r.writes, in.Method)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"metadata": {"name": "x"}}`))}
	return answer, nil
}

func (r *recorder) connect() (*Client, error) {
	client, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, "test")
	if err == nil {
		client.http = &http.Client{Transport: r}
	}
	return client, err
}

func (r *recorder) write(ctx context.Context, connect func() (*Client, error)) error {
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	configMaps, err := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"), "n")
	if err != nil {
		return err
	}
	return configMaps.Update(ctx, "x", "test", map[string]any{}, nil)
}

// A leader that was frozen for longer than its lease finds the next write that it was about to send refused, although
// nothing has ended its context yet. Before, such a leader wrote on, beside the next one, until a timer told it.
func TestFrozenLeaderWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease, api, thaw := &shared{}, &recorder{}, make(chan struct{})
		frozen := &replica{shared: lease}
		a := &Election{
			Connect: api.connect, Identity: "a", Log: slog.New(slog.DiscardHandler), locked: func() (leases, error) { return frozen, nil },
		}
		results := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := a.Run(ctx, func(ctx context.Context, connect func() (*Client, error)) error {
				if ctx.Err() == nil {
					results <- api.write(ctx, connect)
					<-thaw // no timer reaches a frozen process
					results <- api.write(context.WithoutCancel(ctx), connect)
				}
				<-ctx.Done()
				return nil
			}); err != nil {
				t.Error(err)
			}
		}()
		if err := <-results; err != nil || !slices.Equal(api.writes, []string{http.MethodPut}) {
			t.Fatalf("a leader's write: %v, %q", err, api.writes)
		}
		frozen.set(true, nil)
		e := &electorate{t: t, lease: lease}
		b := e.start("b", 0)
		e.want(leaseTime+3*retryTime, "b")
		close(thaw)
		if err := <-results; !errors.Is(err, ErrNotLeading) || len(api.writes) != 1 {
			t.Errorf("the write after the end of the lease: %v, and %q were sent", err, api.writes)
		}
		stop()
		b.stop()
		<-done
		<-b.done
	})
}

// A write that waits for its connection while the lease ends is cancelled. Reading is always possible.
func TestFenceCancelsWritesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, end := &recorder{hang: make(chan struct{})}, time.Now().Add(3*second)
		connect := func() (*Client, error) {
			client, err := api.connect()
			if err != nil {
				return nil, err
			}
			return client.fenced(func() time.Duration { return time.Until(end) }), nil
		}
		began := time.Now()
		if err := api.write(t.Context(), connect); !errors.Is(err, ErrNotLeading) || time.Since(began) != 3*second || len(api.writes) != 0 {
			t.Errorf("after %s: %v, %q", time.Since(began), err, api.writes)
		}
		client, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		configMaps, err := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"), "n")
		if err != nil {
			t.Fatal(err)
		}
		var out corev1.ConfigMap
		if err := configMaps.Get(t.Context(), "x", &out); err != nil || out.Name != "x" {
			t.Errorf("reading after the end of the lease: %v, %q", err, out.Name)
		}
	})
}
