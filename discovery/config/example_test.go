package config_test

import (
	"fmt"

	"github.com/pilotlight/pilotlight/discovery/config"
)

func ExampleDecode() {
	objects, problems := config.Decode("mesh.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews
  trafficPolicy: {tunnel: {targetHost: a, targetPort: 80}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - route: [{destination: {host: reviews}, weigth: 100}]
    timeout: 5
`))
	for _, o := range objects {
		fmt.Println(o.Key(), o.Origin)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// DestinationRule/default/reviews mesh.yaml:2
	// mesh.yaml:7: warning: DestinationRule default/reviews: spec.trafficPolicy.tunnel: DestinationRule.trafficPolicy.tunnel is not supported, ignored: connections are not tunnelled
	// mesh.yaml:15: error: VirtualService default/reviews: spec.http[0].route[0].weigth: unknown field "weigth", did you mean "weight"?
	// mesh.yaml:16: error: VirtualService default/reviews: spec.http[0].timeout: is 5, want a duration such as 1.5s or 200ms
}
