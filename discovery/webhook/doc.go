// Package webhook answers the API server's admission requests, and keeps the certificate that it does so with.
//
//	API server ── AdmissionReview v1 ──▶ Handler ── by path ──▶ Review
//	     ▲                                  ▲
//	     │ caBundle                         │ GetCertificate
//	     └────────────── Keeper ────────────┘
//	                       ▲ make, rotate, watch
//	                       ▼
//	                     Secret, which all replicas share
//
// The certificates' life is a function of the Secret and the time (see plan); the Keeper does the I/O. The package leaves to
// Review functions what an object means, and to its caller the port. It never logs a key.
package webhook
