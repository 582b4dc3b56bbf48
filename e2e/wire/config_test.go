//go:build wire

package wire

import (
	"fmt"
	"strings"
)

// entry is a ServiceEntry of HTTP at NAME.test, port 80, with a virtual address and an endpoint at a port of 127.0.0.1.
func entry(name, address string, port int) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: default}
spec:
  hosts: [%[1]s.test]
  addresses: [%s]
  ports: [{number: 80, name: http, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {http: %d}}]
`, name, address, port)
}

// grpcService is a ServiceEntry of NAME.default.svc.cluster.local with port 50051 of gRPC.
func grpcService(name, resolution string, endpoints ...string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: default}
spec:
  hosts: [%[1]s.default.svc.cluster.local]
  ports: [{number: 50051, name: grpc, protocol: GRPC}]
  location: MESH_INTERNAL
  resolution: %s
  endpoints: [%s]
`, name, resolution, strings.Join(endpoints, ", "))
}

// ofTheMesh has the service secure asked for with the workload's certificate.
const ofTheMesh = `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: secure, namespace: default}
spec: {host: secure.test, trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: secure.test}}}
`

// aside leads a path of echo to the service two.
const aside = `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: default}
spec:
  hosts: [echo.test]
  http:
  - {match: [{uri: {prefix: /aside}}], route: [{destination: {host: two.test}}]}
  - {route: [{destination: {host: echo.test}}]}
`

// split sends four calls of five to v1.
const split = `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: split, namespace: default}
spec:
  host: split.default.svc.cluster.local
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: split, namespace: default}
spec:
  hosts: [split.default.svc.cluster.local]
  http:
  - route:
    - {destination: {host: split.default.svc.cluster.local, subset: v1}, weight: 80}
    - {destination: {host: split.default.svc.cluster.local, subset: v2}, weight: 20}
`
