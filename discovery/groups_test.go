package discovery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The groups of all sources are answered while the server runs, with what came after the last push; and a caller that leaves does not wait.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		s, r := serve(t, map[string]Source{"a": a})
		groups := func() (hosts []string) {
			all, err := s.Groups(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range all {
				for _, service := range g.Services {
					hosts = append(hosts, service.Host)
				}
			}
			return hosts
		}
		if got := groups(); len(got) != 0 {
			t.Errorf("before the first update: %q", got)
		}
		one := func(host string) map[string]model.Group {
			return map[string]model.Group{host: {Services: []*model.Service{{Right: model.RightFull, Host: host}}}}
		}
		a.updates <- model.Update{Groups: one("one"), Synced: true}
		r.want(t, push{0, []string{"one"}})
		a.updates <- model.Update{Groups: one("two")}
		synctest.Wait()
		if got := groups(); len(got) != 2 || got[0] != "one" || got[1] != "two" {
			t.Errorf("got %q", got)
		}
		<-time.After(time.Second) // a reader does not keep the push away
		r.want(t, push{0, []string{"one"}}, push{100 * time.Millisecond, []string{"one", "two"}})
	})
	idle := &Server{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := idle.Groups(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that does not run: %v", err)
	}
}
