package bootstrap_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// Envoy's bootstrap of a sidecar, with an override of the user's.
func ExampleRender() {
	text, err := bootstrap.Render(bootstrap.Params{
		Node:      node.ID{Role: node.Sidecar, IP: "10.1.2.3", Name: "reviews.default", Domain: "default.svc.cluster.local"},
		Cluster:   "reviews.default",
		Discovery: bootstrap.Discovery{Address: bootstrap.Address{Host: "127.0.0.1", Port: 15010}, ConnectTimeout: time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err = bootstrap.Merge(text, []byte(`{"node": {"locality": {"zone": "b"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var read struct {
		Node struct {
			ID       string
			Cluster  string
			Locality struct{ Zone string }
		}
	}
	err = json.Unmarshal(text, &read)
	fmt.Printf("%+v %v\n", read.Node, err)
	// Output: {ID:sidecar~10.1.2.3~reviews.default~default.svc.cluster.local Cluster:reviews.default Locality:{Zone:b}} <nil>
}
