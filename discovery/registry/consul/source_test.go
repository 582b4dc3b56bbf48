package consul

import (
	"log/slog"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (f *fake) source() *Source {
	return &Source{Config: Config{URL: f.URL}, Log: slog.New(slog.DiscardHandler)}
}

func refuse(w http.ResponseWriter, _ *http.Request) bool {
	http.Error(w, "No cluster leader", http.StatusInternalServerError)
	return true
}

func TestContract(t *testing.T) {
	f := newFake(t) // one for all, since each test checks for leaked goroutines
	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry {
		f.empty()
		return sourcetest.Registry{
			Source: f.source(),
			Host:   func(name string) string { return name + ".service.consul" },
			Put:    func(name, address string) { f.put(entry(name, name+"-1", address, 8080)) },
			Delete: f.remove,
			Spoil:  func(name string) { f.put(entry(name, name+"-1", "10.0.0.1", 0)) },
			Break:  func() { f.breakWith(refuse) },
			Mend:   func() { f.breakWith(nil) },
			Touch:  func() { f.change(func() {}, catalogPath, statePath, nodesPath) },
		}
	})
}
