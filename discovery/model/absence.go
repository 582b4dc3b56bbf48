package model

import "slices"

// OfAbsence reports whether notes of a code say that the mesh lacks a service, a workload or a namespace: where only some of
// the sources are known, these may be in the others.
func (c Code) OfAbsence() bool {
	return slices.Contains([]Code{UnknownHost, UnknownPort, UnknownNamespace, EmptySubset, EmptySelector, NoAddress, NotHTTP}, c)
}
