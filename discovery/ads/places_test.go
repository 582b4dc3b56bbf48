package ads

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// The cost of a change of one endpoint does not depend on the number of services: unchanged resources are not examined.
func TestOneEndpointCostsWhatChanged(t *testing.T) {
	for v := range variants {
		for _, all := range []bool{true, false} { // endpoints of all services are wanted, or of some
			var looked []int64
			for _, n := range []int{200, 2_000} {
				looked = append(looked, lookedAtFor(t, v, n, all))
			}
			if looked[0] != looked[1] || looked[0] == 0 || looked[0] > 8 {
				t.Errorf("%s, all services %t: among 200 services %d resources are looked at, among 2,000 services %d: want the same few", v, all, looked[0], looked[1])
			}
		}
	}
}

// lookedAtFor returns how many resources are examined to send a proxy the change of one endpoint among n services.
func lookedAtFor(t *testing.T, v variant, n int, all bool) int64 {
	t.Helper()
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("s%04d", i))
	}
	mesh := adstest.Mesh(1, hosts...)
	var none *views
	g := none.follow(mesh, newInterner())
	reader := reader{View: adstest.View(t, "127.0.0.9")}
	p := newProtocol(v, g.snapshot(reader), g.share)
	ask := func(k kind, list []string) {
		r := &request{variant: v, names: g.share.interner.of(list)}
		for range 2 { // the answer to the response is a request as well
			if _, _, err := p.request(k, r, now); err != nil {
				t.Fatal(err)
			}
			r = &request{variant: v, nonce: p.types[k].nonce}
			if v == sotw {
				r.names = g.share.interner.of(list)
			}
		}
	}
	var wanted []string
	for i, r := range p.latest[eds].all() {
		if all || i%3 != 0 {
			wanted = append(wanted, r.name)
		}
	}
	ask(cds, nil)
	ask(eds, wanted)
	for round := range 3 {
		changed := mesh.Services()[n/2+round%2]
		next := *changed
		next.Endpoints = []model.Endpoint{{Address: fmt.Sprintf("10.0.1.%d", round)}}
		with, ok := mesh.With([]*model.Service{&next}, nil)
		if !ok {
			t.Fatal("an endpoint is more than a small change")
		}
		mesh, g = with, g.follow(with, g.share.interner)
		updated := 0
		p.renew(g.snapshot(reader), g.share)
		for _, r := range p.flush(now) {
			if r.kind != eds {
				t.Errorf("told of %s", r.kind)
			}
			updated += r.news.size()
		}
		if want := slices.ContainsFunc(wanted, func(name string) bool { return name == "outbound|80||"+changed.Host }); want != (updated == 1) || updated > 1 {
			t.Errorf("%d are told, wanted %t", updated, want)
		}
		if _, _, err := p.request(eds, &request{variant: v, nonce: p.types[eds].nonce, names: map[variant]*names{sotw: p.types[eds].names}[v]}, now); err != nil {
			t.Fatal(err)
		}
	}
	return g.work.looked.Load()
}
