package protocol

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
	"github.com/pilotlight/pilotlight/node"
)

// The cost of a change of one endpoint does not depend on the number of services: unchanged resources are not examined.
func TestOneEndpointCostsWhatChanged(t *testing.T) {
	for role, view := range map[string]xds.View{"sidecar": adstest.View(t, "127.0.0.9"), "gateway": gatewayView()} {
		for v := range content.Variants {
			for _, all := range []bool{true, false} { // endpoints of all services are wanted, or of some
				var looked []int64
				for _, n := range []int{200, 2_000} {
					looked = append(looked, lookedAtFor(t, view, v, n, all))
				}
				if looked[0] != looked[1] || looked[0] == 0 || looked[0] > 8 {
					t.Errorf("%s, %s, all services %t: among 200 services %d resources are looked at, among 2,000 services %d: want the same few",
						role, v, all, looked[0], looked[1])
				}
			}
		}
	}
}

func gatewayView() xds.View {
	return xds.ViewOf(xds.Proxy{
		ID:       node.ID{Role: node.Router, IP: "127.0.0.8", Name: "gw.default", Domain: "default.svc.cluster.local"},
		Metadata: node.Metadata{Namespace: "default", Labels: map[string]string{"app": "gw"}},
	})
}

// lookedAtFor returns how many resources are examined to send a proxy the change of one endpoint among n services.
func lookedAtFor(t *testing.T, view xds.View, v content.Variant, n int, all bool) int64 {
	t.Helper()
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("s%04d", i))
	}
	mesh := adstest.Mesh(1, hosts...)
	var none *content.Views
	g := none.Follow(mesh, content.NewInterner())
	reader := content.Reader{View: view}
	p := New(v, g.Snapshot(reader), g.Share, MeshState{})
	ask := func(k content.Kind, list []string) {
		r := &Request{Variant: v, Names: g.Share.Interner.Of(list)}
		for range 2 { // the answer to the response is a request as well
			if _, _, err := p.Request(k, r, now); err != nil {
				t.Fatal(err)
			}
			r = &Request{Variant: v, Nonce: p.types[k].nonce}
			if v == content.SotW {
				r.Names = g.Share.Interner.Of(list)
			}
		}
	}
	var wanted []string
	for i, r := range p.latest[content.EDS].All() {
		if all || i%3 != 0 {
			wanted = append(wanted, r.Name)
		}
	}
	ask(content.CDS, nil)
	ask(content.EDS, wanted)
	for round := range 3 {
		changed := mesh.Services()[n/2+round%2]
		next := *changed
		next.Endpoints = []model.Endpoint{{Address: fmt.Sprintf("10.0.1.%d", round)}}
		with, ok := mesh.With([]*model.Service{&next}, nil)
		if !ok {
			t.Fatal("an endpoint is more than a small change")
		}
		mesh, g = with, g.Follow(with, g.Share.Interner)
		updated := 0
		p.Renew(g.Snapshot(reader), g.Share, MeshState{})
		for _, r := range p.Flush(now) {
			if r.Kind != content.EDS {
				t.Errorf("told of %s", r.Kind)
			}
			updated += r.Update.Size()
		}
		if want := slices.ContainsFunc(wanted, func(name string) bool { return name == "outbound|80||"+changed.Host }); want != (updated == 1) || updated > 1 {
			t.Errorf("%d are sent, wanted %t", updated, want)
		}
		if _, _, err := p.Request(content.EDS, &Request{Variant: v, Nonce: p.types[content.EDS].nonce, Names: map[content.Variant]*content.Names{content.SotW: p.types[content.EDS].names}[v]}, now); err != nil {
			t.Fatal(err)
		}
	}
	return g.Work.Looked.Load()
}
