package envoy

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
)

// served is a process that serves, has this process's pid, and last answered at a time.
func served(admin *Admin, answered time.Time) *process {
	p := &Proxy{Log: slog.New(slog.DiscardHandler)}
	c := &process{Proxy: p, pid: os.Getpid(), admin: admin, output: newOutput(p.Log, 0), stirred: make(chan struct{}, 1)}
	p.Output, p.processes = p.Log, map[int]*process{0: c}
	c.live.Store(true)
	c.health = c.health.Next(health.Observation{Pid: c.pid, Process: health.Running, AdminExpected: true, Answer: &health.Answer{Ready: true}}, answered)
	return c
}

func noReport(t *testing.T) func(agent.Report) {
	return func(r agent.Report) { t.Errorf("reported: %v", r) }
}

// A query that the end of the watch cuts short says nothing about Envoy, though the last answer is older than silence may be.
func TestWatchEndsWithinAQuery(t *testing.T) {
	begun := make(chan struct{})
	c := served(fakeAdmin(t, func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
	}), time.Now().Add(-askInterval))
	c.Judged = func() { t.Error("it is judged") }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.watch(ctx, noReport(t))
	}()
	<-begun
	cancel()
	<-ended
	if v := c.health.Verdict(time.Now()); !v.Holds(health.AdminAnswers) {
		t.Error(v.Reason())
	}
}

// However often children of the agent end, Envoy is queried at the same intervals.
func TestStirredDelaysNoQuery(t *testing.T) {
	var queries atomic.Int32
	admin := fakeAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			queries.Add(1)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	synctest.Test(t, func(t *testing.T) {
		c := served(admin, time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.watch(ctx, noReport(t))
		stirs := time.NewTicker(askInterval * 2 / 5)
		defer stirs.Stop()
		for range 8 { // until 3.2 intervals have passed
			<-stirs.C
			c.Stirred()
		}
		synctest.Wait()
		if got := queries.Load(); got != 4 {
			t.Errorf("%d queries, want 4", got)
		}
	})
}
