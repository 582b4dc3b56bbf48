package ads

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A proxy is shown by each of its names, with what its newest stream was sent: a lost connection may have left another one. A name of several proxies is refused.
func TestDumpIsOfOneProxy(t *testing.T) {
	overWire(t, nil, func(r *rig) {
		in := newTown(r, model.PreferNone)
		const id = "sidecar~10.0.0.9~web.default~default.svc.cluster.local"
		in.proxy(content.SotW, "web", "10.0.0.9")
		<-time.After(time.Second) // of the bubble
		again := r.connect(content.SotW)
		again.node.Id = id
		again.want("fewer endpoints", again.subscribe(content.EDS, adstest.Cluster("any")), "eds:"+adstest.Cluster("any"))
		for _, name := range []string{id, "web.default", "default/web"} {
			for range 20 { // streams have no order
				all, err := r.Dump(name)
				if err != nil || len(all["eds"]) != 1 || len(all["cds"]) != 4 {
					t.Fatalf("%s: got %d endpoints, %d clusters, %v; want the one of the newest stream, and the clusters that only the other was sent", name, len(all["eds"]), len(all["cds"]), err)
				}
			}
		}
		for _, name := range []string{"web", "shop/web", ""} {
			if _, err := r.Dump(name); err == nil || !strings.Contains(err.Error(), "not connected") {
				t.Errorf("%q: got %v, want that it is not connected", name, err)
			}
		}
		in.proxy(content.SotW, "web", "10.0.0.8")
		const want = `2 proxies have the name "web.default": want the node ID of one, "sidecar~10.0.0.8~web.default~default.svc.cluster.local", "` + id + `"`
		if _, err := r.Dump("web.default"); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if all, err := r.Dump(id); err != nil || len(all["eds"]) != 1 {
			t.Errorf("by its ID: %v, %v", all, err)
		}
	})
}
