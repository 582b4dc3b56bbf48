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
// The package leaves flags, variables and their names to its caller: an Input and a status.OwnPort carry the name that a message
// has to use. It does not decide what becomes of a running Envoy, which is package agent's.
package proxy
