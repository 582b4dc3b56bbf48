package sourcetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Registry is an empty registry, and the source that is tested.
type Registry struct {
	Source discovery.Source
	Host   func(name string) string   // of a service
	Put    func(name, address string) // registers a service with one endpoint, or changes it
	Delete func(name string)
	Spoil  func(name string) // makes the record of a service malformed, or registers one that is

	// Break makes every request to the registry fail, and Mend ends that.
	Break, Mend func()

	// Touch makes the registry report a change when nothing has changed.
	Touch func()

	// Lose removes services at one moment. It is needed where records are configuration objects, which are gone as soon as they are
	// deleted. It may be nil for a registry, whose services linger for a second: these are deleted one by one.
	Lose func(names ...string)

	// Faults returns the faults that the source reports outside of its updates, a line each. It may be nil.
	Faults func() []string
}

// long is how long the suite waits for an expected event, and quiet how long for an event that must not come.
const (
	long  = 20 * time.Second
	quiet = 300 * time.Millisecond
)

// Run tests the source of a registry. Each test starts a new registry.
func Run(t *testing.T, start func(t *testing.T) Registry) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, r Registry)
	}{
		{"it syncs once it has sent all it knew", syncs},
		{"it sends what is added, changed and removed", changes},
		{"an empty group deletes", deletes},
		{"nothing is sent when nothing changes", staysQuiet},
		{"a second run sends everything again", runsAgain},
		{"a stop ends it and its goroutines", stops},
		{"it stops though nobody takes its update", stopsUnheard},
		{"a malformed record costs itself, and is named", malformed},
		{"an error keeps the last good state, and shows", fails},
		{"most services that go at once are held", held},
		{"a thousand services", thousand},
	} {
		t.Run(test.name, func(t *testing.T) {
			goroutines := goleak.IgnoreCurrent()
			r := start(t)
			test.run(t, r)
			goleak.VerifyNone(t, goroutines)
		})
	}
}

func syncs(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	r.Put("b", "10.0.0.2")
	run := follow(t, r)
	defer run.stop()
	run.untilSynced()
	run.want("a 10.0.0.1", "b 10.0.0.2")
	run.quietly("after it has synced")
}

func changes(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := serve(t, r)
	defer run.stop()
	run.await("a 10.0.0.1")
	r.Put("b", "10.0.0.2")
	run.await("a 10.0.0.1", "b 10.0.0.2")
	r.Put("a", "10.0.0.9")
	run.await("a 10.0.0.9", "b 10.0.0.2")
	r.Delete("b")
	run.await("a 10.0.0.9")
	r.Delete("a")
	run.await()
}

func deletes(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	r.Put("b", "10.0.0.2")
	run := follow(t, r)
	defer run.stop()
	run.untilSynced()
	before := len(run.groups)
	r.Delete("a")
	for empty := false; !empty; {
		for _, group := range run.next("the deletion").Groups {
			empty = empty || group.Empty()
		}
	}
	if run.want("b 10.0.0.2"); len(run.groups) >= before {
		t.Errorf("%d groups are left of %d", len(run.groups), before)
	}
}

func staysQuiet(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := follow(t, r)
	defer run.stop()
	run.untilSynced()
	r.Touch()
	run.quietly("though nothing changed")
}

func runsAgain(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	for range 2 {
		run := follow(t, r)
		run.untilSynced()
		run.want("a 10.0.0.1")
		run.stop()
	}
}

func stops(t *testing.T, r Registry) {
	goroutines := goleak.IgnoreCurrent()
	run := follow(t, r)
	run.untilSynced()
	run.stop()
	goleak.VerifyNone(t, goroutines)
}

func stopsUnheard(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := follow(t, r)
	run.stop()
}

func malformed(t *testing.T, r Registry) {
	r.Put("good", "10.0.0.1")
	r.Put("broken", "10.0.0.2")
	r.Spoil("never")
	run := serve(t, r)
	defer run.stop()
	run.await("broken 10.0.0.2", "good 10.0.0.1")
	run.awaitFault("never")
	r.Spoil("broken")
	run.awaitFault("broken")
	r.Put("good", "10.0.0.9")
	run.await("broken 10.0.0.2", "good 10.0.0.9") // the last good form stays
	r.Put("broken", "10.0.0.3")
	run.await("broken 10.0.0.3", "good 10.0.0.9")
	r.Delete("never")
	run.awaitNoFault()
}

func fails(t *testing.T, r Registry) {
	r.Put("a", "10.0.0.1")
	run := serve(t, r)
	defer run.stop()
	run.await("a 10.0.0.1")
	r.Break()
	run.awaitFault("")
	run.stays("a 10.0.0.1")
	r.Mend()
	r.Put("b", "10.0.0.2")
	run.await("a 10.0.0.1", "b 10.0.0.2")
	run.awaitNoFault()
}

func held(t *testing.T, r Registry) {
	all := []string{"a 10.0.0.1", "b 10.0.0.2", "c 10.0.0.3", "d 10.0.0.4"}
	for _, line := range all {
		name, address, _ := strings.Cut(line, " ")
		r.Put(name, address)
	}
	run := servePatiently(t, r, discovery.Patience{Wipe: time.Hour, Linger: 3 * time.Second})
	defer run.stop()
	run.await(all...)
	r.lose("b", "c", "d")
	run.awaitFault("3 of 4 hosts are gone at once")
	run.stays(all...)
	if _, err := run.server.Release("tested"); err != nil {
		t.Error(err)
	}
	run.await(all[0])
	run.awaitNoFault()
}

func (r Registry) lose(names ...string) {
	if r.Lose != nil {
		r.Lose(names...)
		return
	}
	for _, name := range names {
		r.Delete(name)
	}
}

func thousand(t *testing.T, r Registry) {
	var want []string
	for i := range 1000 {
		name, address := fmt.Sprintf("s%04d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		r.Put(name, address)
		want = append(want, name+" "+address)
	}
	run := serve(t, r)
	defer run.stop()
	run.await(want...)
	r.Put("s0500", "10.9.9.9")
	want[500] = "s0500 10.9.9.9"
	run.await(want...)
}

// shown returns the services of a registry that a mesh has, a line for each: name and addresses.
func (r Registry) shown(m *model.Mesh, names map[string]string) []string {
	var out []string
	for _, s := range m.Services() {
		line := names[s.Host]
		if line == "" {
			line = s.Host
		}
		for _, e := range s.Endpoints {
			line += " " + e.Address
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// names maps the hosts of lines to the names that they begin with.
func (r Registry) names(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		out[r.Host(name)] = name
	}
	return out
}
