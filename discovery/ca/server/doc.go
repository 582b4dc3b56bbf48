// Package server signs certificates for callers that prove an identity.
//
//	POST /v1/certificates ──┐                 ┌─ certificate of this authority
//	                        ├─▶ Server.Issue ┼─ join token                    ──▶ ca.Authority ──▶ Issued
//	CreateCertificate ──────┘    │ limits     └─ Authenticators of other tokens
//	                             └─ log, metrics: why a caller was refused
//	GET /v1/roots, by a certificate of this authority ──▶ the roots, and a count of those who have them
//
// The first proof that applies decides. A caller that is refused hears that alone; the log and a metric have the cause. It leaves
// TLS and ports to its caller.
package server
