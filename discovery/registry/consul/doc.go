// Package consul is the registry of HashiCorp's Consul: its services, instances and health checks.
//
//	/v1/catalog/services ─┐                                        ┌──▶ workers: /v1/health/service/NAME
//	/v1/health/state/any ─┼─ blocking queries ─▶ view: changed ───────┤        │
//	/v1/catalog/nodes ────┘      one of each                       └── round  └─▶ groupOf ──▶ Update
//
// Three blocking queries are open, for any number of services. They name the services that changed, and these are read,
// several at once. A change that none of the three names, such as another weight, is found by a round that reads each
// service once. docs/design/014-consul-eureka.md has the reasons.
//
// A service NAME is the host NAME.service.consul. The package does not serve the proxies and gateways of Consul's own
// mesh, and does not write to Consul.
package consul
