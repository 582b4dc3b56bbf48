// Package records keeps the last requests that failed: Envoy sends a record of each to the agent, off the request's way.
//
//	Envoy's worker ── access log with a filter: a flag, ≥ 500, 401, 403 ──▶ buffer, ≤ 64 KB
//	   │ full: dropped and counted                                             │ gRPC, each second
//	   ▼                                                                       ▼
//	access_logs.grpc_access_log.logs_dropped          Server ── parse (pure) ──▶ Ring: the last 100 ──▶ agent why
//
// Clients that a listener refuses reach no filter: the listener's own log has them, with Envoy's reason.
//
// A listener names the cluster agent_records, which is at the socket of SDS: only Envoys of this agent may connect. Envoy
// never waits for the agent: while it stands still, or is being replaced, records are dropped. The agent in turn takes a
// bounded number a second, and leaves the rest to be dropped by Envoy: a storm of failures costs no more.
//
// Limits: a record is bounded, what may be a secret is masked, and of a query only the names stay. Nothing is written to disk: the
// records live as long as this image of the agent, and Since says from when they are. A stream of TCP is recorded when it ends.
package records
