// Package printer prints objects of a store: as a table, as names, as YAML or as JSON.
//
//	store ── objects as they are written ──▶ Form ──▶ text: fields in the order of their author
//
// It does not read stores, and does not judge objects.
package printer
