package proxy

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/handoff"
)

// FuzzCarriage: whatever is written in a state, it is refused with an error, or its Envoys, which are no children of this process, are gone.
func FuzzCarriage(f *testing.F) {
	epochs := []agent.CarriedEpoch{{Launch: agent.Launch{Family: 0}}}
	lives := agent.Carried{Epochs: []agent.CarriedEpoch{{LiveAt: time.Unix(1, 0)}}, Families: 1}
	for _, c := range []carried{
		{},
		{Supervisor: lives},
		{Supervisor: lives, Slot: envoy.CarriedSlot{Base: -1, Opened: -1, Lock: 3}, Envoys: envoy.Carried{Good: -1}},
		{Supervisor: agent.Carried{Epochs: epochs, Families: 1}, Envoys: envoy.Carried{Good: -1, Processes: []envoy.CarriedProcess{{Pid: 1}, {Pid: -1}}}},
		{Sockets: map[string]int{"--statusPort": 3}, Envoys: envoy.Carried{Good: 3}, Slot: envoy.CarriedSlot{Lock: 64, Opened: 64}, Enrollment: 5},
		{Secrets: map[string][]byte{"default": []byte("x"), "": nil}},
	} {
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		handed := &handoff.Handed{Files: &handoff.Files{}, Body: text}
		c, err := newCarriage(handed)
		if err != nil {
			return
		}
		c.carriedSecrets()
		if _, err := c.enrollmentLock(); err == nil && c.from.Enrollment != 0 {
			t.Error("a descriptor that was not handed over was taken")
		}
		if _, err := envoy.AdoptSlot(c.from.Slot, c.from.Envoys, handed.Files, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("a slot without a lock was adopted")
		}
		proxy := &envoy.Proxy{Log: slog.New(slog.DiscardHandler), Output: slog.New(slog.DiscardHandler)}
		living := c.from.Supervisor.Living()
		if gone, err := proxy.Adopt(c.from.Envoys, living, handed.Files); err == nil && len(gone) != len(living) {
			t.Errorf("of %v only %v are gone", living, gone)
		}
	})
}
