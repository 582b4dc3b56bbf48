package templates

import _ "embed"

// The bootstraps: text/templates over bootstrap.Params that yield JSON, made of the parts. Package bootstrap writes
// every value as JSON, so no value can break the document.
var (
	//go:embed sidecar.json.tmpl
	Sidecar string
	// Gateway is that of ingress and router: both stand at the edge, and differ in what discovery sends.
	//
	//go:embed gateway.json.tmpl
	Gateway string
	// Parts are the templates that the bootstraps share, and that a user's own template may redefine: each a JSON value by name.
	//
	//go:embed parts.json.tmpl
	Parts string
	// Optional are further parts, which a bootstrap needs only when some setting asks for them.
	//
	//go:embed optional.json.tmpl
	Optional string
)
