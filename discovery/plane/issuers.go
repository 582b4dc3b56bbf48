package plane

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/acme/client"
	"github.com/pilotlight/pilotlight/discovery/acme/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Issuers are the issuers of certificates of Gateways, by ACME.
type Issuers struct {
	Of       client.Issuers
	Gateways Names // service accounts of gateways that get certificates
	Inside   bool  // ask them at addresses that are not of the Internet too
	// Secret has the keys of accounts for all replicas, and Secrets beside it certificates and the state of orders;
	// zero for files of StateDir.
	Secret Name
}

// Names of the sources of answers to challenges, and of certificates. They differ, since the metrics of sources have
// them.
const (
	challengesName   = "acmeChallenges"
	certificatesName = "acmeIssuers"
)

func (c Config) issuerFaults(fault Fault) (faults []error) {
	i := c.Issuers
	if len(i.Of) == 0 {
		if len(i.Gateways) > 0 || i.Inside || i.Secret != (Name{}) {
			faults = append(faults, errors.New("--acmeGateways, --acmeInside or --acmeSecret is given without --acmeIssuer"))
		}
		return faults
	}
	switch {
	case i.Secret != Name{} && !c.inCluster():
		faults = append(faults, errors.New("--acmeSecret is given, and --registries does not name Kubernetes, whose Secret it is"))
	case i.Secret == Name{} && c.StateDir == "":
		faults = append(faults, fault("stateDir", `""`, "a directory, or --acmeSecret: keys and certificates of --acmeIssuer are kept there, or each start would order them again"))
	}
	if len(i.Gateways) == 0 {
		faults = append(faults, fault("acmeGateways", `""`, "the service accounts of gateways that get the certificates of --acmeIssuer, as NAMESPACE/ACCOUNT"))
	}
	return faults
}

// joinIssuers has certificates of issuers served, and their questions answered; p.issuers is nil without issuers.
func (p *Plane) joinIssuers() error {
	c := p.config
	p.reporter.Also(func() []model.Note {
		if m := p.proxies.Mesh(); m != nil {
			return p.issuerNotes(m)
		}
		return nil
	})
	if len(c.Issuers.Of) == 0 {
		return nil
	}
	accounts := map[string][]string{}
	for _, a := range c.Issuers.Gateways {
		accounts[a.Namespace] = append(accounts[a.Namespace], a.Name)
	}
	var err error
	p.issuers, err = client.New(client.Config{
		Issuers: c.Issuers.Of, Inside: c.Issuers.Inside, Store: p.issuerStore(), Accounts: accounts,
		Mesh: p.proxies.Mesh, Changed: p.reporter.Recheck, Log: c.Log,
		Proxies: func() []model.Proxy { return acme.Entitled(p.proxies.Proxies(), accounts) },
		Lagging: func(streams []int64, namespace, token string) map[int64]string {
			return p.proxies.Lagging(streams, token, func(m *model.Mesh) bool { return m.Answers(namespace, token) })
		},
	})
	if err != nil {
		return err
	}
	p.server.Sources[challengesName] = p.issuers.Challenges()
	p.server.Secrets[certificatesName] = p.issuers.Secrets()
	p.server.Judge = judges{p.server.Judge, p.issuers}
	p.proxies.OnNews(func() {
		p.reporter.Recheck()
		p.issuers.Look()
	})
	return nil
}

// issuerStore returns where certificates of issuers are kept: in Secrets, which the leader writes, or in files.
func (p *Plane) issuerStore() client.Store {
	c := p.config
	if c.Issuers.Secret == (Name{}) {
		return client.Directory(filepath.Join(c.StateDir, "acme"))
	}
	p.issued = &kubernetes.Store{
		Connect: c.Cluster.connect, In: kubernetes.At(c.Issuers.Secret), Replica: c.Replica, Holds: p.election.Holds, Log: c.Log,
		Changed: func() { p.issuers.Look() },
	}
	p.leading = append(p.leading, p.issued.Lead)
	return p.issued
}

// runIssuers asks issuers until ctx is done.
func (p *Plane) runIssuers(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.issuers.Run(ctx) })
	if p.issued != nil {
		g.Go(func() error { return p.issued.Run(ctx) })
	}
	return g.Wait()
}

// issuerNotes returns what is to be said of Gateways that name an issuer.
func (p *Plane) issuerNotes(m *model.Mesh) []model.Note {
	notes := acme.Unknown(m, p.config.Issuers.Of.Names())
	if p.issuers != nil {
		notes = append(notes, p.issuers.Notes()...)
	}
	return notes
}

// issuerLines returns a line for each fault of certificates of issuers.
func (p *Plane) issuerLines() []string {
	if p.issuers == nil {
		return nil
	}
	return p.issuers.Lines()
}

func (p *Plane) issuerMetrics() []prometheus.Collector {
	if p.issuers == nil {
		return nil
	}
	return []prometheus.Collector{p.issuers}
}
