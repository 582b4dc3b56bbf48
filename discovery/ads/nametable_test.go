package ads

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// atAddresses returns a mesh of services, each with the address that follows its name.
func atAddresses(words string) *model.Mesh {
	var services []*model.Service
	for _, word := range strings.Fields(words) {
		name, address, _ := strings.Cut(word, "=")
		services = append(services, &model.Service{
			Right: model.RightFull, Host: name + ".default.svc.cluster.local", Namespace: "default", Resolution: model.ResolutionStatic,
			Ports:     []model.Port{{Name: "tcp", Number: 80, Protocol: model.TCP}},
			Addresses: []string{address}, Endpoints: []model.Endpoint{{Address: "127.0.0.1"}},
		})
	}
	return model.New(slices.Values([]model.Group{{Services: services}}))
}

// A client that requests names gets one table: at once, even if it is empty, and again when it changes. Istio's agent
// sends the request without a name, after one for listeners.
func TestNamesAreServed(t *testing.T) {
	both(t, nil, func(r *rig, v content.Variant) {
		push := func(words string) {
			r.Push(atAddresses(words), model.Change{})
			synctest.Wait()
		}
		push("")
		c := r.connect(v)
		c.want("LDS", c.subscribe(content.LDS), "lds:127.0.0.1_15080")
		c.want("NDS", c.subscribe(content.NDS), "nds:names")
		if got := adstest.ReadNames(t, c.table); got != "" {
			t.Errorf("an empty mesh has the names %s", got)
		}
		c.want("ACK of listeners", c.ack(content.LDS), "")
		c.want("ACK of names", c.ack(content.NDS), "")

		push("a=10.0.0.1")
		c.want("a service", c.got(), "nds:names")
		if got, want := adstest.ReadNames(t, c.table), "a.default.svc.cluster.local=10.0.0.1 Kubernetes a/default"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		c.want("its ACK", c.ack(content.NDS), "")
		push("a=10.0.0.1")
		c.want("nothing new", c.got(), "")
		push("a=10.0.0.1 b=10.0.0.2")
		c.want("another", c.got(), "nds:names")
		c.want("a NACK", c.nack(content.NDS, "failed to unmarshal name table"), "")
		push("b=10.0.0.2")
		c.want("after it", c.got(), "nds:names")
		c.want("its ACK", c.ack(content.NDS), "")
		push("")
		c.want("none is left", c.got(), "nds:names")
		if got := adstest.ReadNames(t, c.table); got != "" {
			t.Errorf("an empty mesh has the names %s", got)
		}

		if state := r.Clients()[0].Types; state[len(state)-1].Name != "nds" {
			t.Errorf("the status page shows %+v", state)
		}
		other := r.connect(v)
		other.want("another proxy", other.subscribe(content.LDS), "lds:127.0.0.1_15080")
		asked := 0 // both connected at the same instant: their order is not defined
		for _, client := range r.Clients() {
			if state := client.Types; state[len(state)-1].Name == "nds" {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("the status page shows names of %d proxies, want 1: the other asks for none", asked)
		}
	})
}

func TestNamesAreShown(t *testing.T) {
	r := run(t)
	r.Push(atAddresses("a=10.0.0.1"), model.Change{})
	s := r.open()
	s.ask(content.NamesType)
	dump, err := r.Dump(adstest.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(dump["nds"])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"@type":"` + content.NamesType + `","table":{"a.default.svc.cluster.local":` +
		`{"ips":["10.0.0.1"],"registry":"Kubernetes","shortname":"a","namespace":"default"}}}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
