package main

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func (s *settings) cloudFoundry() []setting.Setting {
	c := &s.CloudFoundry
	return []setting.Setting{
		{
			Name: "natsURL", Kind: setting.List(&c.Broker.URLs),
			Help: "NATS brokers of a Cloud Foundry, as nats://host:4222 or tls://host:4224; needed by --registries CloudFoundry. One that answers is used",
		},
		{
			Name: "natsCredentialsFile", Kind: setting.Path(&c.Broker.Credentials),
			Help: "file of USER:PASSWORD in one line, or of a user's JWT and seed, for --natsURL; read again for each connection",
		},
		{
			Name: "natsCACertFile", Kind: setting.Path(&c.Broker.CA),
			Help: "roots of the brokers' certificates, PEM; if empty, those of the system. TLS is used where it is given, with tls://, and " +
				"where a broker asks for it",
		},
		{Name: "natsClientCertFile", Kind: setting.Path(&c.Broker.Cert), Help: "certificate that the brokers ask for, PEM; read again for each connection"},
		{Name: "natsClientKeyFile", Kind: setting.Path(&c.Broker.Key), Help: "its private key, PEM"},
		{
			Name: "natsRegisterInterval", Default: cloudfoundry.DefaultInterval.String(),
			Kind: setting.Duration(&c.Interval, 100*time.Millisecond, setting.Forever),
			Help: "how often publishers are asked to announce each route. At the start routes are complete after this time: it is best below --registrySyncTimeout",
		},
		{
			Name: "natsPruneThreshold", Default: "120s", Kind: setting.Duration(&c.Threshold, 100*time.Millisecond, setting.Forever),
			Help: "drop a route's instance that was not announced for this time, unless it takes TLS or the broker is away",
		},
	}
}
