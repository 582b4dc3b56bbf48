// Package spiffe reads the identity of a workload from its certificate, as the SPIFFE standard writes it:
//
//	certificate ── exactly one URI ──▶ spiffe://TRUST.DOMAIN/PATH ──▶ ID
//
// It is strict: a text that two readers could take for different identities is none. It does not verify the
// certificate, and leaves the meaning of the path to its callers.
package spiffe
