package mock_test

import (
	"context"
	"fmt"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/mock"
)

// A source sends all records of its registry, then what changes, until its context is done.
func ExampleSource_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	registry := mock.New(mock.HelloWorld()...)
	updates, ended := make(chan model.Update), make(chan error, 1)
	go func() { ended <- mock.Source{Registry: registry}.Run(ctx, updates) }()

	first := <-updates
	fmt.Println(len(first.Groups), "services, synced:", first.Synced)
	registry.Delete("hello")
	for key, group := range (<-updates).Groups {
		fmt.Println(key, "is gone:", group.Empty())
	}
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// 2 services, synced: true
	// hello is gone: true
	// ended: <nil>
}
