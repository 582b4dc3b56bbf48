// Package plane joins one control plane: sources of services, configuration and secrets, the server's loop, the streams of
// ADS, notes, webhooks, the work of the leader, and the ports of all of them.
//
//	Config ─▶ New ─▶ Plane ─▶ Run:
//	  registries, stores, settings ─┐                            ┌▶ ads: streams of proxies
//	  MeshConfig's configSources ───┼▶ discovery.Server ─▶ mesh ─┼▶ notes ─▶ statuses of objects (leader)
//	  Ingresses (leader: addresses) ┘         ▲                  └▶ wanted Secrets ─┐
//	  files and Secrets of the cluster ───────┴─────────────────────────────────────┘
//	  ready, pages, metrics: HTTP             webhooks: HTTPS
//
// No other package starts an adapter: cmd/discovery fills their Configs, and reads stores for its other commands. What it decides stands in functions of values: ready.go, wanted.go, faults.go,
// and plan in configsources.go. It does not read flags or variables; its caller fills the Config.
package plane
