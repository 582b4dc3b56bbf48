package discover

import (
	"errors"
	"log"
)

// Provider finds servers in one cloud.
type Provider interface {
	Addrs(args map[string]string, l *log.Logger) ([]string, error)
	Help() string
}

// Providers are none.
var Providers = map[string]Provider{}

// Discover finds nothing.
type Discover struct{}

// Option is ignored.
type Option func(*Discover) error

// New returns a Discover, whatever the options.
func New(...Option) (*Discover, error) { return &Discover{}, nil }

// WithUserAgent is ignored.
func WithUserAgent(string) Option { return nil }

// WithProviders is ignored.
func WithProviders(map[string]Provider) Option { return nil }

// Names returns the names of no provider.
func (d *Discover) Names() []string { return nil }

// Help says nothing.
func (d *Discover) Help() string { return "" }

// Addrs fails.
func (d *Discover) Addrs(string, *log.Logger) ([]string, error) {
	return nil, errors.New("this build of Consul finds no servers in clouds")
}
