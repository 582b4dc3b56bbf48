// Package crd judges Istio's objects as a Kubernetes API server does that has Istio's own CustomResourceDefinitions: by
// their schemas, their CEL rules, and the strict decoding that kubectl asks for. It is the reference that tests hold
// discovery's validator against.
//
//	istio.io/api's CRDs ──▶ schema per kind and version ──▶ Judge(YAML) ──▶ faults
//
// It uses the API server's own code and starts no server. The reference does not know discovery's rules; Sound asks both, for
// tests that write configuration.
package crd
