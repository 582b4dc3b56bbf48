package main

import (
	"net/url"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// cloudFoundry holds the settings for the routes of a Cloud Foundry.
type cloudFoundry struct {
	broker              cloudfoundry.Broker
	interval, threshold time.Duration
}

func (c *cloudFoundry) settings() []setting.Setting {
	return []setting.Setting{
		{
			Name: "natsURL", Kind: setting.List(&c.broker.URLs),
			Help: "NATS brokers of a Cloud Foundry, as nats://host:4222 or tls://host:4224; needed by --registries CloudFoundry. One that answers is used",
		},
		{
			Name: "natsCredentialsFile", Kind: setting.Path(&c.broker.Credentials),
			Help: "file of USER:PASSWORD in one line, or of a user's JWT and seed, for --natsURL; read again for each connection",
		},
		{
			Name: "natsCACertFile", Kind: setting.Path(&c.broker.CA),
			Help: "roots of the brokers' certificates, PEM; if empty, those of the system. TLS is used where it is given, with tls://, and " +
				"where a broker asks for it",
		},
		{Name: "natsClientCertFile", Kind: setting.Path(&c.broker.Cert), Help: "certificate that the brokers ask for, PEM; read again for each connection"},
		{Name: "natsClientKeyFile", Kind: setting.Path(&c.broker.Key), Help: "its private key, PEM"},
		{
			Name: "natsRegisterInterval", Default: cloudfoundry.DefaultInterval.String(),
			Kind: setting.Duration(&c.interval, 100*time.Millisecond, setting.Forever),
			Help: "how often publishers are asked to announce each route. At the start routes are complete after this time: it is best below --registrySyncTimeout",
		},
		{
			Name: "natsPruneThreshold", Default: "120s", Kind: setting.Duration(&c.threshold, 100*time.Millisecond, setting.Forever),
			Help: "drop a route's instance that was not announced for this time, unless it takes TLS or the broker is away",
		},
	}
}

// faulty is a wrong value and a description of the right one.
type faulty struct{ found, want string }

// faults returns the faults of the settings, by name. A password is not shown.
func (c *cloudFoundry) faults() map[string]faulty {
	out := map[string]faulty{}
	for _, broker := range c.broker.URLs {
		u, err := url.Parse(broker)
		switch {
		case err != nil || u.Host == "" || u.Port() == "" || u.Scheme != "nats" && u.Scheme != "tls":
			out["natsURL"] = faulty{broker, "URLs such as nats://host:4222, parted by commas"}
		case u.User != nil:
			out["natsURL"] = faulty{u.Redacted(), "it without credentials, which --natsCredentialsFile takes"}
		}
	}
	if (c.broker.Cert == "") != (c.broker.Key == "") {
		out["natsClientCertFile"] = faulty{c.broker.Cert, "--natsClientCertFile and --natsClientKeyFile together, or none of them"}
	}
	if c.threshold <= c.interval {
		out["natsPruneThreshold"] = faulty{c.threshold.String(), "more than --natsRegisterInterval, which is " + c.interval.String() + ", or routes come and go"}
	}
	return out
}

func (c *cloudFoundry) served(hosts model.Grant) plane.CloudFoundry {
	return plane.CloudFoundry{Broker: c.broker, Hosts: hosts, Interval: c.interval, Threshold: c.threshold}
}
