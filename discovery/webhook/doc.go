// Package webhook answers the API server's admission requests, and makes and renews the certificate for it.
//
//	API server ── AdmissionReview v1 ──▶ Handler ── by path ──▶ Review
//	     ▲                                  ▲
//	     │ caBundle                         │ GetCertificate
//	     └────────────── Keeper ────────────┘
//	                       ▲ make, rotate, watch
//	                       ▼
//	                     Secret, which all replicas share
//
// A function of the Secret and the time decides when certificates are made and served (see plan); the Keeper does the
// I/O. The package leaves the meaning of objects to Review functions, and the port to its caller. It never logs a key.
package webhook
