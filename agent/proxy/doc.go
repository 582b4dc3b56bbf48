// Package proxy joins one proxy: an Envoy with its supervisor, its certificates, its ports and its status.
//
//	Config ─▶ New: addresses, limits, identity ─▶ Proxy ─┬▶ Bootstrap, Diff, Validate
//	                                                     └▶ Run
//	Run:
//	  watched files ─┬▶ desire ──────────▶ agent.Config ─┐
//	                 ├▶ cert.Follower ─▶ new hash ─▶ ────┤
//	                 └▶ secrets ─▶ SDS ─▶ Envoy          ▼
//	                                        agent.Agent ─▶ envoy.Proxy
//	                                             │ status, new events
//	                                             ├▶ report ─▶ status port, service manager
//	                                             └▶ flight.Recorder
//
// The package does not read flags and variables. Its caller does: an Input and a status.OwnPort carry their names for messages. The decisions
// about a running Envoy are made in package agent.
package proxy
