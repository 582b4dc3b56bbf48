package content

import (
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// Reader holds the properties of a stream on which its configuration depends, besides the mesh and the secrets: its
// view, whether it requests names, and, if it requests secrets, the service account of its certificate. The account is
// "" in plaintext; the client is then on this host.
type Reader struct {
	xds.View
	Names   bool
	Secrets bool
	Account string
}
