package node_test

import (
	"fmt"

	"github.com/pilotlight/pilotlight/node"
)

// What the agent writes into the bootstrap, discovery reads back.
func ExampleParseID() {
	id, err := node.ParseID("sidecar~10.1.2.3~reviews-7d4f.default~default.svc.cluster.local")
	fmt.Println(id.Role, id.IP, id.Name, id.Domain, err)
	fmt.Println(id)
	_, err = node.ParseID("sidecar~here~reviews~")
	fmt.Println(err != nil)
	// Output:
	// sidecar 10.1.2.3 reviews-7d4f.default default.svc.cluster.local <nil>
	// sidecar~10.1.2.3~reviews-7d4f.default~default.svc.cluster.local
	// true
}
