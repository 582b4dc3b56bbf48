// Package registries tests discovery against real registries: HashiCorp's Consul, Spring Cloud's Eureka, and NATS as a
// Cloud Foundry announces its routes there.
//
//	client ──▶ Envoy ◀── agent        part: a registry, started, killed and started again on its ports and data
//	             ▲                      │
//	             └──── ADS ──── discovery
//
// They are built and fetched by envoy-tools/fetch-registries; consul, eureka, nats and nomad pin their versions. The tests are behind the
// build tag registries and run by make e2e-registries. It leaves to the adapters' own tests what a fake can show.
package registries
