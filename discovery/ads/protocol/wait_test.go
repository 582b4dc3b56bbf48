package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A client that comes back waits as long as a source is lacking, and then, if most of its clusters are gone, for the time of a
// mass removal.
func TestWait(t *testing.T) {
	const wipe = 30 * time.Second
	began := now.Add(-time.Hour)
	most, half := model.Tally{Lost: 19, Had: 25}, model.Tally{Lost: 4, Had: 8}
	for name, test := range map[string]struct {
		world MeshState
		last  Wait
		lost  model.Tally
		want  Wait
	}{
		"a client without anything":                 {MeshState{Lacks: true, Wipe: wipe}, Wait{}, most, Wait{}},
		"a source is lacking":                       {MeshState{Lacks: true, Wipe: wipe}, Wait{Since: began}, half, Wait{Since: began, Lost: half}},
		"a source is lacking, nothing is held":      {MeshState{Lacks: true}, Wait{Since: began}, most, Wait{Since: began, Lost: most}},
		"none is":                                   {MeshState{Wipe: wipe}, Wait{Since: began}, half, Wait{}},
		"none is, and most is gone":                 {MeshState{Wipe: wipe}, Wait{Since: began}, most, Wait{Since: began, Until: now.Add(wipe), Lost: most}},
		"the same, nothing is held":                 {MeshState{}, Wait{Since: began}, most, Wait{}},
		"the same, the time goes on":                {MeshState{Wipe: wipe}, Wait{Since: began, Until: now.Add(1)}, most, Wait{Since: began, Until: now.Add(1), Lost: most}},
		"the same, the time is over":                {MeshState{Wipe: wipe}, Wait{Since: began, Until: now}, most, Wait{}},
		"most was gone, and half is back":           {MeshState{Wipe: wipe}, Wait{Since: began, Until: now.Add(1)}, half, Wait{Since: began, Until: now.Add(1), Lost: half}},
		"most was gone, and all is back":            {MeshState{Wipe: wipe}, Wait{Since: began, Until: now.Add(1)}, model.Tally{Had: 8}, Wait{}},
		"an operator goes without a source":         {MeshState{Forgone: true, Wipe: wipe}, Wait{Since: began}, most, Wait{}},
		"the same, and another is lacking":          {MeshState{Lacks: true, Forgone: true, Wipe: wipe}, Wait{Since: began}, most, Wait{Since: began, Lost: most}},
		"the same, it had waited for a removal":     {MeshState{Forgone: true, Wipe: wipe}, Wait{Since: began, Until: now.Add(1)}, most, Wait{}},
		"most is gone, and a source is lacking now": {MeshState{Lacks: true, Wipe: wipe}, Wait{Since: began, Until: now.Add(1)}, most, Wait{Since: began, Lost: most}},
	} {
		if got := test.world.after(test.last, test.lost, now); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// returning connects a client of the delta variant to a state of a world. It has the resources of another state, which may be
// none, and requests all kinds in Envoy's order.
func returning(t *testing.T, had, s *content.Snapshot, w MeshState) (e *envoy, first string) {
	e = &envoy{t: t, clock: now, protocol: New(content.Delta, s, content.NewShare(content.NewInterner()), w)}
	var out []string
	for _, k := range []content.Kind{content.CDS, content.EDS, content.LDS, content.RDS} {
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.TypeURL(), InitialResourceVersions: map[string]string{}}
		for _, resource := range had[k].All() {
			r.InitialResourceVersions[resource.Name] = resource.Version
			if !k.Whole() {
				r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, resource.Name)
			}
		}
		if !k.Whole() && len(r.ResourceNamesSubscribe) == 0 {
			for _, resource := range s[k].All() {
				r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, resource.Name)
			}
		}
		out = append(out, e.told(e.delta(k, r)))
		if e.protocol.types[k].pending {
			out = append(out, e.told(e.delta(k, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.TypeURL(), ResponseNonce: e.protocol.types[k].nonce})))
		}
	}
	return e, strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), " ")
}

func (e *envoy) delta(k content.Kind, r *discoveryv3.DeltaDiscoveryRequest) []Response {
	e.t.Helper()
	responses, _, err := e.protocol.Request(k, scan(e.t, e.protocol.share.Interner, r), e.clock)
	if err != nil {
		e.t.Fatal(err)
	}
	return responses
}

// told describes responses as "cds:a,-b": b is removed.
func (e *envoy) told(responses []Response) string {
	var out []string
	for _, r := range responses {
		var names []string
		for _, resource := range resourcesOf(r) {
			names = append(names, map[bool]string{false: "-"}[resource.Exists()]+resource.Name)
		}
		slices.Sort(names)
		out = append(out, fmt.Sprintf("%s:%s", r.Kind, strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}

// acks answers everything, and returns what comes then.
func (e *envoy) acks() string {
	e.t.Helper()
	var out []string
	for range content.Kinds {
		for k := range content.Kinds {
			if e.protocol.types[k].pending {
				out = append(out, e.told(e.delta(k, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.TypeURL(), ResponseNonce: e.protocol.types[k].nonce})))
			}
		}
	}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), " ")
}

// A source is lacking: a client that comes back is greeted, and keeps what it has, whatever is pushed; one without anything
// gets what there is. When the source is there, the client gets the difference.
func TestAReturningClientWaits(t *testing.T) {
	before := state("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=abc")
	without := state("a=1", "a=2", "l=2", "r=a")
	lacks := MeshState{Lacks: true}

	e, first := returning(t, before, without, lacks)
	e.want("at first", first, "cds: lds:")
	if wait := e.protocol.Wait(); !wait.Since.Equal(now) || wait.Lost != (model.Tally{Lost: 2, Had: 3}) || e.protocol.Reached() {
		t.Errorf("it waits: %+v, and has reached everything: %t", wait, e.protocol.Reached())
	}
	for i := range 3 {
		e.clock = e.clock.Add(time.Hour)
		e.protocol.Renew(state(fmt.Sprint("a=1 d=", i), fmt.Sprint("a=1 d=", i), fmt.Sprint("l=", i), fmt.Sprint("r=", i)), content.NewShare(e.protocol.share.Interner), lacks)
		e.want("a push", e.told(e.protocol.Flush(e.clock))+e.acks(), "")
	}
	e.protocol.Renew(state("a=1 b=2 c=1", "a=2 b=1 c=1", "l=2", "r=abc"), content.NewShare(e.protocol.share.Interner), MeshState{})
	e.want("all is there", e.told(e.protocol.Flush(e.clock)), "cds:b,c eds:a,b,c lds:l rds:r")
	e.want("then", e.acks(), "")
	if e.protocol.Wait().Waits() || !e.protocol.Reached() {
		t.Errorf("at the end it waits: %+v", e.protocol.Wait())
	}

	_, first = returning(t, state("", "", "", ""), without, lacks)
	e.want("a client without anything", first, "cds:a eds:a lds:l rds:r")
	same, first := returning(t, without, without, lacks)
	e.want("a client that has what there is", first, "cds: lds:")
	same.protocol.Renew(state("a=1 b=1", "a=1", "l=1", "r=1"), content.NewShare(same.protocol.share.Interner), lacks)
	e.want("which gets changes", same.told(same.protocol.Flush(now)), "cds:b eds:a lds:l rds:r")
}

// A client names no clusters by state of the world: a version that differs is enough.
func TestAReturningClientOfStateOfTheWorldWaits(t *testing.T) {
	e := connect(t, base)
	e.protocol.mesh = MeshState{Lacks: true}
	for _, k := range []content.Kind{content.CDS, content.LDS} {
		e.accepted[k] = "old"
		e.want("of another version", e.ask(k), "")
	}
	e.want("a push", e.push(state("a=2", "a=2", "l=2", "r=2")), "")
	e.protocol.mesh = MeshState{}
	e.want("when no source is lacking", e.push(state("a=2 b=1", "a=2", "l=2", "r=2")), "cds:a,b")
}

// Nothing is lacking, and most clusters of a client that comes back are gone, as of a registry that has just started: it keeps
// them for a while, or until they are back, or released.
func TestAReturningClientWouldLoseMost(t *testing.T) {
	before := state("a=1 b=1 c=1 d=1 e=1", "a=1", "l=1", "r=1")
	world := MeshState{Wipe: 30 * time.Second}
	start := func() *envoy {
		t.Helper()
		e, first := returning(t, before, state("a=1 b=1", "a=1", "l=1", "r=1"), world)
		e.want("at first", first, "cds: lds:")
		if wake := e.protocol.Wakes(now); !wake.Equal(now.Add(world.Wipe)) {
			t.Errorf("it wakes at %v", wake)
		}
		return e
	}
	push := func(e *envoy, clusters string) string {
		e.protocol.Renew(state(clusters, "a=1", "l=1", "r=1"), content.NewShare(e.protocol.share.Interner), world)
		return e.told(e.protocol.Flush(e.clock))
	}

	e := start()
	e.clock = now.Add(world.Wipe - 1)
	e.want("before the time is over", push(e, "a=1"), "")
	e.clock = now.Add(world.Wipe)
	e.want("then", e.told(e.protocol.Flush(e.clock)), "cds:-b,-c,-d,-e")

	e = start()
	e.want("one is back", push(e, "a=1 b=1 c=2"), "")
	e.want("all are back", push(e, "a=1 b=1 c=2 d=1 e=1"), "cds:c,d,e")

	e = start()
	if !e.protocol.Release() || e.protocol.Release() {
		t.Error("it is not released, or twice")
	}
	e.want("released", e.told(e.protocol.Flush(e.clock)), "cds:-c,-d,-e")

	world.Lacks = true
	e, _ = returning(t, before, state("a=1 b=1", "a=1", "l=1", "r=1"), world)
	world.Lacks, world.Forgone = false, true
	e.want("an operator goes without the source", push(e, "a=1 b=1"), "cds:-c,-d,-e")
	world.Forgone = false

	_, first := returning(t, before, state("a=1 b=1 c=1", "a=1", "l=1", "r=1"), world)
	e.want("less than half is gone", first, "cds:-d,-e lds:")
}
