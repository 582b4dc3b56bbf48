package discovery

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Source sends groups of services and objects, and then changes, until ctx is done. After an error the server starts it
// again, and it sends everything again. A Source that returns nil has nothing more to send.
// discovery/registry/README.md describes how to write one.
type Source interface {
	Run(ctx context.Context, updates chan<- model.Update) error
}

// OnlySources is a Source that adds other sources and sends only faults. It adds those that exist at its start before
// it syncs. The sync of such a source alone is not enough for the first mesh.
type OnlySources interface {
	Source
	OnlySources()
}

// OpenRegistry is a Source of a registry in which anybody may write: each of its services has a model.Right that says so.
// No host of another source can belong to it, so no other source waits for it.
type OpenRegistry interface {
	Source
	OpenRegistry()
}

// Holder is a Source that itself holds what is gone at once: files, of which nobody says that they were deleted, and a control plane
// that has just started. Its methods may be called from any goroutine.
type Holder interface {
	Source
	// Held returns what is held, such as "9 of 10 services", how many groups that is, since when and until when; "" and 0 for nothing.
	Held() (lost string, groups int, since, until time.Time)
	// Release ends the hold: what is gone is removed.
	Release()
}

// The generic parts of this package, for the two kinds of sources: those of the mesh, and those of secrets.
type (
	feed        = feedOf[model.Update]
	sourceEvent = eventOf[model.Update]

	secretFeed  = feedOf[secret.Update]
	secretEvent = eventOf[secret.Update]
)
