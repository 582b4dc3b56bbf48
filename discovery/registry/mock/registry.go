package mock

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
