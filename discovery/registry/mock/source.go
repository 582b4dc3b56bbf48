package mock

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Source sends the services of a Registry, and then changes.
type Source struct {
	Registry *Registry
	Domain   model.Domain // of the services
}

// Run sends updates until ctx is done or the registry fails. It keeps nothing between two runs: after an error the server
// starts it again, and it sends everything again.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	sent := map[string]model.Group{}
	for version := 0; ; {
		records, next, err := s.Registry.Records(ctx, version)
		if ctx.Err() != nil {
			return nil // it was stopped
		}
		if err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		first := version == 0
		version = next
		changes := difference(s.Domain, sent, records)
		if len(changes) == 0 && !first {
			continue
		}
		select {
		case updates <- model.Update{Groups: changes, Synced: true}:
		case <-ctx.Done():
			return nil
		}
	}
}

// difference returns the groups that differ from those that were sent, and records them as sent.
func difference(d model.Domain, sent map[string]model.Group, records []Record) map[string]model.Group {
	changes := map[string]model.Group{}
	now := make(map[string]bool, len(records))
	for _, r := range records {
		now[r.Name] = true
		if group := groupOf(d, r); !reflect.DeepEqual(sent[r.Name], group) {
			changes[r.Name], sent[r.Name] = group, group
		}
	}
	for name := range sent {
		if !now[name] {
			changes[name] = model.Group{} // it was deleted
			delete(sent, name)
		}
	}
	return changes
}

// groupOf converts a record. For a record that cannot be read it returns only the faults; for one that can be read in
// part, the readable part and the faults.
func groupOf(d model.Domain, r Record) model.Group {
	if _, err := netip.ParseAddr(r.Address); err != nil {
		return model.Group{Faults: []string{fmt.Sprintf("address is %q, want an IP address", r.Address)}}
	}
	service := &model.Service{
		Right: model.RightFull, Registry: "Mock", Host: d.Host(r.Name, "default"), Namespace: "default", Name: r.Name, Resolution: model.ResolutionStatic,
		Addresses: []string{r.Address},
		Ports: []model.Port{
			{Name: "http", Number: 80, Target: 8080, Protocol: model.HTTP}, {Name: "tcp", Number: 90, Target: 9090, Protocol: model.TCP},
		},
	}
	var faults []string
	for i, instance := range r.Instances {
		if _, err := netip.ParseAddr(instance.Address); err != nil {
			faults = append(faults, fmt.Sprintf("address of instance %d is %q, want an IP address", i, instance.Address))
			continue
		}
		service.Endpoints = append(service.Endpoints, model.Endpoint{
			Address: instance.Address, Labels: map[string]string{"version": instance.Version}, Health: instance.Health,
		})
	}
	return model.Group{Services: []*model.Service{service}, Faults: faults}
}
