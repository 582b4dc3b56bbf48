// Demo runs the bookinfo mesh on this machine: one discovery server, five programs, and for each of them an agent with
// an Envoy of its own. No root, nothing but loopback.
//
//	plan ──▶ discovery ──ready──▶ programs ──ready──▶ agents ──ready──▶ page answers ──▶ say what to try
//	                                                                        │
//	              SIGINT, SIGTERM, or a process that ended by itself ◀──────┘
//	                                    │
//	stop, the other way round:  agents ──▶ programs ──▶ discovery
//
// With -registry consul a Consul comes before discovery, and has the services. With -mtls discovery is an authority, each agent gets a
// join token, and one more agent runs a gateway for the page. Without redirection the programs' own ports stay open to this machine.
//
// Which process runs where is a pure function of the flags (plan.go). It is a demonstration: it starts each process once and
// does not restart any of them. The agents restart Envoy; nothing restarts the programs or discovery.
package main
