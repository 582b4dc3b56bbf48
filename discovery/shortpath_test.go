package discovery

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A service or an object that a second source adds never replaces the first source's on the short path, even with the
// same name and age.
func TestASecondSourceDoesNotReplaceTheFirst(t *testing.T) {
	service := func(cluster, address string) model.Group {
		return model.Group{Services: []*model.Service{{
			Right: model.RightFull, Registry: "Kubernetes", Cluster: cluster, Host: "x.test", Namespace: "default", Name: "x", Resolution: model.ResolutionStatic,
			Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}}, Endpoints: []model.Endpoint{{Address: address}},
		}}}
	}
	entry := func(address string) model.Group {
		return model.Group{Objects: []*model.Object{{
			Meta: model.Meta{Kind: "ServiceEntry", Namespace: "default", Name: "x"},
			Spec: &networking.ServiceEntry{
				Hosts: []string{"x.test"}, Resolution: networking.ServiceEntry_STATIC,
				Ports:     []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
				Endpoints: []*networking.WorkloadEntry{{Address: address}},
			},
		}}}
	}
	for name, test := range map[string]struct {
		first, second model.Group
		want          int // endpoints
	}{
		"a service": {service("east", "10.0.0.1"), service("west", "10.0.0.2"), 2},
		"an object": {entry("10.0.0.1"), entry("10.0.0.2"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a", "b")
			send := func(source string, groups map[string]model.Group) *model.Service {
				s.apply(sourceEvent{feed: s.sources[source].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
				mesh, _ := s.flush(epoch)
				return mesh.Service("x.test")
			}
			send("b", nil)
			send("a", map[string]model.Group{"x": test.first})
			got := send("b", map[string]model.Group{"x": test.second})
			if len(got.Endpoints) != test.want || got.Endpoints[0].Address != "10.0.0.1" {
				t.Errorf("endpoints are %v, want %d, the first source's first", got.Endpoints, test.want)
			}
			if got := send("b", map[string]model.Group{"x": {}}); len(got.Endpoints) != 1 || got.Endpoints[0].Address != "10.0.0.1" {
				t.Errorf("without the second source endpoints are %v", got.Endpoints)
			}
		})
	}
}
