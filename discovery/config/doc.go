// Package config decodes and validates Istio's configuration objects.
//
//	file ──▶ YAML nodes ──▶ JSON, a node a line ──▶ protojson ──▶ Istio's type ──▶ rules, support ──▶ model.Object
//	              │                │                    │                             │
//	              └──── line ◀─────┴────── place ◀──────┴──────────── path ◀──────────┴──▶ Problem{file, line, path, message}
//
// That is how faults are found. Plainly sound documents, nearly all, take two short ways. A document of block mappings
// and lists is read into nodes without the YAML package (plain.go); nodes go straight to Istio's type (straight.go). A
// document that a short way gives up on goes the long way from its start, so each verdict is the long way's.
//
// There is no schema beside protobuf's. YAML is rewritten as JSON with one node a line, so that the line of an error of
// protojson names the node: its line in the file, its path, and what the field would take. Rules name fields by the
// same paths and find the same lines.
//
// All faults are returned together, as values. An error refuses the object; a warning names what the object asks for
// and discovery does not do: a field that is ignored silently is a defect.
//
// The package refuses to read files, to know where a document came from, or to decide what a fault costs: that is the
// store's part. No goroutine, no clock, no I/O.
package config
