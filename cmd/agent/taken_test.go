package main

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
)

// An Envoy that does not answer, as in a handover, has proven nothing: the change of a root bundle would be lost.
func TestNoAnswerProvesNoRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &proxy{settings: &settings{}, child: &envoy.Proxy{}, log: slog.New(slog.DiscardHandler)}
		same := cert.Observation{Infos: []cert.Info{{Serial: "03e9"}}}
		if p.taken(t.Context(), same, same) {
			t.Error("taken, though nobody said so")
		}
		if waited := time.Since(began); waited < proofLimit || waited > 2*proofLimit {
			t.Errorf("given up after %s, want about %s", waited, proofLimit)
		}
	})
}
