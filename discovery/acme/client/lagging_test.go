package client

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/acme"
)

// An order for the new hosts of a server goes on after a restart, though no gateway is connected at first, and after gateways were away for a while: it is not made again.
// What no gateway has needed for long is forgotten, but for the certificate that is served until there is another one.
func TestAnOrderOutlivesGateways(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acme")
	synctest.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		gateway := func(at string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.at = at
		}
		w.behind = true // the order cannot end
		was := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"before.test"}, Secrets: []string{"acme://lets/edge/g/s"}}
		store := Directory(dir)
		_, err := store.Term(t.Context())
		check(t, err)
		check(t, store.Save(t.Context(), was.Issued([]byte("key"), []byte("chain"), time.Now(), time.Now().Add(90*24*time.Hour))))
		store.Close()
		stop := w.startWith("b", Directory(dir))
		pass(10 * time.Second)
		stop()
		gateway("nowhere")
		stop = w.startWith("b", Directory(dir))
		pass(10 * time.Second)
		gateway("b")
		pass(10 * time.Minute)
		if n := w.issuer.count(); n != 1 {
			t.Errorf("%d orders after a restart without gateways, want 1", n)
		}
		gateway("nowhere")
		pass(30 * time.Minute)
		gateway("b")
		pass(30 * time.Minute)
		if n := w.issuer.count(); n != 1 {
			t.Errorf("%d orders after gateways were away for half an hour, want 1", n)
		}
		gateway("nowhere")
		pass(24 * time.Hour)
		stop()
		kept, _, err := store.Load()
		if err != nil || len(kept) != 1 || kept[was.Set().Key()].Order != "" {
			t.Errorf("kept are %d records, %v, want the certificate alone", len(kept), err)
		}
	})
}
