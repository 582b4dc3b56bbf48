// Package networking has Kubernetes' Ingress and IngressClass, as structs for JSON.
//
//	API server ── JSON ──▶ kube.Watch ───────┐
//	files ────────────────▶ manifest ────────┴─▶ Ingress, IngressClass ──▶ discovery/ingress
//
// They have the names and all fields of k8s.io/api/networking/v1, so that an unknown field of a file is found; a test
// compares the two. That package has a protobuf codec for each of its types, a hundredth of the program, of which
// Ingresses are the only ones that are read. The package does not interpret them.
package networking
