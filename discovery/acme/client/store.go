package client

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/discovery/acme"
)

// Store keeps the records of sets, and the keys of accounts.
type Store interface {
	// Load returns the records by key, nil while they are not known, and those that cannot be read by acme.Set.ID. With an error they are those of before.
	Load() (records map[string]acme.Record, broken map[string]acme.Broken, err error)
	// Term returns a context within which this process may ask issuers, and write. The error acme.ErrFollows says that another process does.
	Term(ctx context.Context) (context.Context, error)
	// Save and Forget fail with acme.ErrTaken where another process has written the record.
	Save(ctx context.Context, r acme.Record) error
	Forget(ctx context.Context, r acme.Record) error
	// Account returns the key of an account at the URL of an issuer, PEM: the one that made gives, if there is none.
	Account(ctx context.Context, issuer, url string, made func() ([]byte, error)) ([]byte, error)
	// Close ends the right to write.
	Close()
}

// Replicas are other processes with the same Store, whose gateways answer questions too.
type Replicas interface {
	Store
	// Say has others know what this one says of its gateways.
	Say(acme.Report)
	Heard() map[string]acme.Heard
	// Name returns that of this one, in Heard.
	Name() string
}

// brokenPause is how long after its last change a set is not asked for whose record cannot be read: nobody knows what it was about.
const brokenPause = time.Hour
