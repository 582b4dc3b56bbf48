// Package kubernetes lets an authority know the service accounts of a cluster.
//
//	token ─▶ read ─▶ TokenReview ─▶ API server ─▶ judge ─▶ ca.Identity
//
// A token must be for Istio's audience, of a service account, and bound to a Pod. Nothing that is in a token counts before the API
// server has said so, and no answer is kept: a Pod that is deleted gets no further certificate by its token. It does not sign, and
// leaves limits of callers to package door.
package kubernetes
