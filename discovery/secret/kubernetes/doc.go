// Package kubernetes is the source of secrets from a Kubernetes cluster: it reads the wanted Secrets, and no others.
//
//	Want ──▶ a watch of each Secret, by its name ──▶ certificate, key and roots ──▶ Update
//	                                            └──▶ Known: the fault of each, "" for none
//
// A Secret has tls.crt with tls.key, as the type kubernetes.io/tls does, and may have ca.crt; or cert, key and cacert,
// as Istio's do. A Secret that becomes malformed or is removed keeps its last good form, and is reported. The package
// does not read Secrets that no configuration names, and writes nothing.
package kubernetes
