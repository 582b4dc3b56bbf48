// Package validation judges configuration before it is served: what serve would refuse, ignore or not find in these objects.
//
//	objects of files ─▶ groups, as a store makes them ─▶ Mesh ─▶ notes ─┬─▶ Verdict.Problems
//	 (Istio's, Kubernetes')        └ faults of Ingresses and manifests ─┘
//	                                        └ about names that a registry may have ─▶ Verdict.NotJudged
//
// Files are seldom a whole mesh: a note about a name that one of the registries may have is no fault of the files. It is
// left out, and the name is returned, so that nothing is left out silently.
//
// Live judges them beside what a running discovery serves: two meshes, without and with the files, and the notes of both.
//
// It does no I/O: its callers read files and print. It refuses no object that serve takes: each rule is in discovery/config
// and discovery/model, and only applied here.
package validation
