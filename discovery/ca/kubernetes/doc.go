// Package kubernetes lets an authority know the service accounts of a cluster, and keeps what its replicas share there.
//
//	token ─▶ read ─▶ TokenReview ─▶ API server ─▶ judge ─▶ ca.Identity
//
//	Secret cacerts ◀─▶ Shared ─▶ ca.Authority ─▶ Publisher, of the leader ─▶ ConfigMap istio-ca-root-cert in each namespace
//
// A token must be for Istio's audience, of a service account, and bound to a Pod. Nothing that is in a token counts before the API
// server has said so, and no answer is kept: a Pod that is deleted gets no further certificate by its token. It does not sign, and
// leaves limits of callers to package server.
package kubernetes
