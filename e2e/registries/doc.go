// Package registries tests discovery against real registries: HashiCorp's Consul and Spring Cloud's Eureka.
//
//	client ──▶ Envoy ◀── agent        part: a registry, started, killed and started again on its ports and data
//	             ▲                      │
//	             └──── ADS ──── discovery
//
// They are built and fetched by envoy-tools/fetch-registries; consul and eureka pin their versions. The tests are behind the
// build tag registries and run by make e2e-registries. It leaves to the adapters' own tests what a fake can show.
package registries
