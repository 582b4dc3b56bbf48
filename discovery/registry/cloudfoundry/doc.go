// Package cloudfoundry is the registry of a Cloud Foundry: the routes that its components and its cells announce on NATS, as
// Cloud Foundry's own router, gorouter, learns them.
//
//	router.register, router.unregister ──▶ message ──▶ table: routes, their instances, their age ── groupOf ──▶ Update
//	router.greet ──▶ router.start ──▶ publishers announce all they have             ▲
//	                                                                  time: sweep ──┘  drops plain instances that are not
//	                                                                                   announced again
//
// NATS remembers nothing, so the table is the registry: it outlives a run, and what ages stops ageing while NATS is away.
// docs/design/015-cloudfoundry-mcp.md has the reasons, and says what of a route is not served.
//
// The package refuses to retry and to log: the server does both.
package cloudfoundry
