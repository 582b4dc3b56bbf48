package mock

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(*testing.T) sourcetest.Registry {
		r := New()
		record := func(name, address string) Record {
			return Record{Name: name, Address: "127.3.0.1", Instances: []Instance{{Address: address}}}
		}
		return sourcetest.Registry{
			Source: Source{Registry: r, Domain: "corp.example"},
			Host:   func(name string) string { return name + ".default.svc.corp.example" },
			Put:    func(name, address string) { r.Put(record(name, address)) },
			Delete: r.Delete,
			Spoil:  func(name string) { r.Put(Record{Name: name, Address: "none"}) },
			Break:  func() { r.Fail(errors.New("the registry is away")) },
			Mend:   func() { r.Fail(nil) },
			Touch:  func() { r.change(func() {}) },
		}
	})
}

func TestGroupOf(t *testing.T) {
	hello := HelloWorld()[0]
	want := &model.Service{
		Right: model.RightFull, Registry: "Mock", Host: "hello.default.svc.cluster.local", Namespace: "default", Name: "hello", Resolution: model.ResolutionStatic,
		Addresses: []string{"127.1.0.1"},
		Ports: []model.Port{
			{Name: "http", Number: 80, Target: 8080, Protocol: model.HTTP}, {Name: "tcp", Number: 90, Target: 9090, Protocol: model.TCP},
		},
		Endpoints: []model.Endpoint{
			{Address: "127.1.1.1", Labels: map[string]string{"version": "v0"}}, {Address: "127.1.1.2", Labels: map[string]string{"version": "v1"}},
		},
	}
	if diff := cmp.Diff(model.Group{Services: []*model.Service{want}}, groupOf("", hello)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	hello.Instances[0].Address = "here"
	part := groupOf("", hello)
	if faults := []string{`address of instance 0 is "here", want an IP address`}; !slices.Equal(part.Faults, faults) || len(part.Services[0].Endpoints) != 1 {
		t.Errorf("of a record that is malformed in part: %+v", part)
	}
}
