// Package cloudfoundry is the registry of a Cloud Foundry: the routes that its components and its cells announce on
// NATS, as Cloud Foundry's own router, gorouter, receives them.
//
//	router.register, router.unregister ──▶ message ──▶ table: routes, their instances, their age ── groupOf ──▶ Update
//	router.greet ──▶ router.start ──▶ publishers announce all they have             ▲
//	                                                                  time: sweep ──┘  drops plain instances that are not
//	                                                                                   announced again
//
// NATS stores nothing, so the table is the registry: it outlives a run, and instances do not age while NATS cannot be
// reached. docs/design/015-cloudfoundry-mcp.md has the reasons, and lists the settings of a route that are not served.
//
// The package does not retry and does not log: the server does both.
package cloudfoundry
