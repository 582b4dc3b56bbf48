// Package config decodes and validates Istio's configuration objects.
//
//	file ──▶ YAML nodes ──▶ JSON, a node a line ──▶ protojson ──▶ Istio's type ──▶ rules, support ──▶ model.Object
//	              │                │                    │                             │
//	              └──── line ◀─────┴────── place ◀──────┴──────────── path ◀──────────┴──▶ Problem{file, line, path, message}
//
// This slow path finds faults. Nearly all documents are valid and simple, and take two fast paths: a document of block
// mappings and lists is read into nodes without the YAML package (fastyaml.go), and nodes are decoded directly into
// Istio's type (fastdecode.go). A document that a fast path does not support takes the slow path from its start, so
// that the slow path gives every verdict.
//
// There is no schema other than protobuf's. YAML is rewritten as JSON with one node a line, so that the line of an
// error of protojson names the node: its line in the file, its path, and the type of the field. Rules name fields by
// the same paths and find the same lines.
//
// All faults are returned together, as values. An error refuses the object; a warning names a setting of the object
// that discovery does not support: to ignore a field silently is a defect.
//
// The package does not read files, does not depend on the source of a document, and does not decide the consequence of
// a fault: the store does. No goroutine, no clock, no I/O.
package config
