package discovery

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// open is a registry that never syncs.
type open struct{ Source }

func (open) OpenRegistry() {}

// A source that has not synced in time may have the host of a guest: it is not served until every source of the start
// has synced once, has nothing more to send, or is removed. Other services are served meanwhile. Later nothing waits.
func TestGuestsWaitForLateSources(t *testing.T) {
	for what, end := range map[string]func(s *state, now time.Time){
		"it syncs": func(s *state, now time.Time) {
			s.apply(sourceEvent{feed: s.sources["late"].feed, update: model.Update{Synced: true}}, now)
		},
		"it ends": func(s *state, now time.Time) { s.apply(sourceEvent{feed: s.sources["late"].feed, ended: true}, now) },
		"it is removed": func(s *state, now time.Time) {
			roster := map[string]*feed{"nats": s.sources["nats"].feed, "open": s.sources["open"].feed}
			s.reconcile(roster, now)
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := stateOf("late", "open", "nats")
			s.sources["open"].feed.source = open{}
			send := func(address string, synced bool) {
				groups := map[string]model.Group{
					"own":   {Services: []*model.Service{{Host: "own.test", Right: model.RightSuffix}}},
					"guest": {Services: []*model.Service{{Host: "api.bank.com", Right: model.RightGuest, Endpoints: []model.Endpoint{{Address: address}}}}},
				}
				s.apply(sourceEvent{feed: s.sources["nats"].feed, update: model.Update{Groups: groups, Synced: synced}}, epoch)
			}
			send("10.0.0.1", true)
			late := epoch.Add(31 * time.Second)
			s.expire(late)
			for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
				send(address, true)
				if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"own.test"}) {
					t.Fatalf("without the late source there are %v", hosts(mesh))
				}
			}
			s.apply(sourceEvent{feed: s.sources["late"].feed, ended: true, err: errors.New("it is away")}, late)
			lines := strings.Join(s.report("nats").Lines(), "\n")
			if want := "source nats: 1 of its hosts are not served until late has synced once"; !strings.Contains(lines, want) {
				t.Errorf("said %q, want %q", lines, want)
			}
			end(s, late)
			if _, due := s.debounce(Debounce{}); !due {
				t.Error("then nothing is due")
			}
			if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"api.bank.com", "own.test"}) {
				t.Errorf("then there are %v", hosts(mesh))
			}
			if lines := s.report("nats").Lines(); len(lines) > 0 {
				t.Errorf("then it says %q", lines)
			}
			s.reconcile(map[string]*feed{"nats": s.sources["nats"].feed, "open": s.sources["open"].feed, "new": {name: "new"}}, late)
			if mesh, _ := s.flush(epoch); !slices.Contains(hosts(mesh), "api.bank.com") {
				t.Errorf("with a new source there are %v", hosts(mesh))
			}
		})
	}
}
