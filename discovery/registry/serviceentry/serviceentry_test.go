package serviceentry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConvert(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	meta := model.Meta{Kind: "ServiceEntry", Namespace: "shop", Name: "a", Created: created}
	http := &networking.ServicePort{Number: 80, Name: "http", Protocol: "http", TargetPort: 8080}
	grpc := &networking.ServicePort{Number: 90, Name: "grpc", Protocol: "GRPC"}
	httpPort := model.Port{Name: "http", Number: 80, Target: 8080, Protocol: model.HTTP}
	grpcPort := model.Port{Name: "grpc", Number: 90, Protocol: model.GRPC}

	for name, test := range map[string]struct {
		entry *networking.ServiceEntry
		want  []*model.Service
	}{
		"a port is the endpoint's own, else the target, else the service's": {
			&networking.ServiceEntry{
				Hosts: []string{"Reviews.Example.com"}, Resolution: networking.ServiceEntry_STATIC,
				Ports: []*networking.ServicePort{http, grpc},
				Endpoints: []*networking.WorkloadEntry{
					{Address: "127.0.0.1", Labels: map[string]string{"version": "v1"}, Weight: 3},
					{Address: "127.0.0.2", Ports: map[string]uint32{"http": 9080, "grpc": 9090}},
				},
			},
			[]*model.Service{{
				Host: "reviews.example.com", Namespace: "shop", Created: created, External: true, Resolution: model.ResolutionStatic,
				Ports: []model.Port{httpPort, grpcPort},
				Endpoints: []model.Endpoint{
					{Address: "127.0.0.1", Labels: map[string]string{"version": "v1"}, Weight: 3},
					{Address: "127.0.0.2", Ports: map[string]uint32{"http": 9080, "grpc": 9090}},
				},
			}},
		},
		"under DNS without endpoints each host is its own": {
			&networking.ServiceEntry{
				Hosts: []string{"a.com", "B.com"}, Resolution: networking.ServiceEntry_DNS, Ports: []*networking.ServicePort{http},
			},
			[]*model.Service{
				{
					Host: "a.com", Namespace: "shop", Created: created, External: true,
					Resolution: model.ResolutionDNS, Ports: []model.Port{httpPort},
					Endpoints: []model.Endpoint{{Address: "a.com"}},
				},
				{
					Host: "b.com", Namespace: "shop", Created: created, External: true,
					Resolution: model.ResolutionDNS, Ports: []model.Port{httpPort},
					Endpoints: []model.Endpoint{{Address: "b.com"}},
				},
			},
		},
		"a static service may have no endpoints": {
			&networking.ServiceEntry{
				Hosts: []string{"a.com"}, Resolution: networking.ServiceEntry_STATIC, Ports: []*networking.ServicePort{grpc},
			},
			[]*model.Service{{
				Host: "a.com", Namespace: "shop", Created: created, External: true,
				Resolution: model.ResolutionStatic, Ports: []model.Port{grpcPort},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, convert(meta, test.entry)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// store tells its updates and ends with its error, or when it is told to.
type store struct {
	updates []model.Update
	err     error
}

func (s store) Run(ctx context.Context, updates chan<- model.Update) error {
	for _, u := range s.updates {
		select {
		case updates <- u:
		case <-ctx.Done():
			return nil
		}
	}
	if s.err == nil {
		<-ctx.Done()
	}
	return s.err
}

func TestSource(t *testing.T) {
	entry := &model.Object{Spec: &networking.ServiceEntry{Hosts: []string{"a"}}}
	rule := &model.Object{Spec: &networking.DestinationRule{Host: "a"}}
	told := model.Update{Synced: true, Groups: map[string]model.Group{
		"entry": {Objects: []*model.Object{entry}}, "rule": {Objects: []*model.Object{rule}}, "deleted": {},
	}}
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		updates, done := make(chan model.Update), make(chan error)
		go func() { done <- Source{store{[]model.Update{told}, broken}}.Run(t.Context(), updates) }()

		got := <-updates
		if g := got.Groups["entry"]; len(g.Objects) != 1 || len(g.Services) != 1 || g.Services[0].Host != "a" {
			t.Errorf("the entry's group is %+v, want the object and its service", g)
		}
		if g := got.Groups["rule"]; len(g.Objects) != 1 || len(g.Services) != 0 {
			t.Errorf("the rule's group is %+v, want the object alone", g)
		}
		if g, ok := got.Groups["deleted"]; !ok || !g.Empty() || !got.Synced || len(got.Groups) != 3 {
			t.Errorf("the update is %+v, want the rest as it was told", got)
		}
		if err := <-done; !errors.Is(err, broken) {
			t.Errorf("Run = %v, want the store's error", err)
		}
	})
}

// Nobody takes the update: the source still ends with its context.
func TestSourceStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Source{store{updates: make([]model.Update, 3)}}.Run(ctx, make(chan model.Update)) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
