// Package kubernetes is the source of secrets that are Secrets of a Kubernetes cluster: those that are wanted, and no others.
//
//	Want ──▶ a watch of each Secret, by its name ──▶ certificate, key and roots ──▶ Update
//	                                            └──▶ Known: what is wrong with each, "" for nothing
//
// A Secret has tls.crt with tls.key, as the type kubernetes.io/tls does, and may have ca.crt; or cert, key and cacert, as Istio's do.
// One that is spoiled or removed keeps its last good form, and is named. It does not read Secrets that nothing names, and
// writes nothing.
package kubernetes
