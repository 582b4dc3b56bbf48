// Package templates holds the text that the project renders: one Envoy bootstrap per role. It refuses to know what
// the values are; package bootstrap renders.
package templates

import _ "embed"

// Sidecar is the bootstrap of role sidecar: a text/template over bootstrap.Params that yields JSON. Every value goes
// through the function json, so no value can break the document.
//
//go:embed sidecar.json.tmpl
var Sidecar string
