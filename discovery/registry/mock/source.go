package mock

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"

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

// Record is a service in the form of this registry.
type Record struct {
	Name      string // also the first label of its host
	Address   string
	Instances []Instance
}

// Instance is one process that serves a Record.
type Instance struct {
	Address string
	Version string
	Health  model.Health
}

// Registry holds records by name. It takes the place of a server to which a Source sends requests.
type Registry struct {
	mu      sync.Mutex
	records map[string]Record
	err     error         // which every call returns
	version int           // grows with every change
	changed chan struct{} // closed by the next change
}

// New returns a registry of these records.
func New(records ...Record) *Registry {
	r := &Registry{records: map[string]Record{}, version: 1, changed: make(chan struct{})}
	for _, record := range records {
		r.records[record.Name] = record
	}
	return r
}

// HelloWorld returns the two fixed services.
func HelloWorld() []Record {
	return []Record{
		{Name: "hello", Address: "127.1.0.1", Instances: []Instance{{Address: "127.1.1.1", Version: "v0"}, {Address: "127.1.1.2", Version: "v1"}}},
		{Name: "world", Address: "127.2.0.1", Instances: []Instance{{Address: "127.2.1.1", Version: "v0"}, {Address: "127.2.1.2", Version: "v1"}}},
	}
}

// Put registers a record; it replaces one of the same name.
func (r *Registry) Put(record Record) {
	r.change(func() { r.records[record.Name] = record })
}

// Delete removes a record.
func (r *Registry) Delete(name string) {
	r.change(func() { delete(r.records, name) })
}

// Fail ends calls that wait for a change, and refuses further calls, with err; nil mends the registry.
func (r *Registry) Fail(err error) {
	r.change(func() { r.err = err })
}

func (r *Registry) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	r.version++
	close(r.changed)
	r.changed = make(chan struct{})
}

// Records waits until the version of the registry differs from after, and returns all records by name.
func (r *Registry) Records(ctx context.Context, after int) (records []Record, version int, err error) {
	for {
		r.mu.Lock()
		version, err, changed := r.version, r.err, r.changed
		for _, name := range slices.Sorted(maps.Keys(r.records)) {
			records = append(records, r.records[name])
		}
		r.mu.Unlock()
		if err != nil || version != after {
			return records, version, err
		}
		records = nil
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}
