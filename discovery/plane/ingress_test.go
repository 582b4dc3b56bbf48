package plane

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Ingresses are served where the API server alone has configuration: they wait for a directory only if there is one.
func TestIngressesWaitForTheStoresThatThereAre(t *testing.T) {
	for dir, want := range map[string]bool{"": true, t.TempDir(): false} { // which nobody reads here
		synctest.Test(t, func(t *testing.T) {
			c := Config{ConfigDir: dir, Log: slog.New(slog.DiscardHandler), Ingress: Ingress{Class: "pilotlight"}}
			i := newIngresses(c.Ingress, c.Domain, nil)
			c.files(i)
			ctx, stop := context.WithCancel(t.Context())
			updates, ended := make(chan model.Update), make(chan error)
			go func() { ended <- i.source.Run(ctx, updates) }()
			synced := false
			select {
			case u := <-updates:
				synced = u.Synced
			case <-time.After(time.Hour):
			}
			if synced != want {
				t.Errorf("directory %q: synced %v, want %v", dir, synced, want)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
