package main

import (
	"strings"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secrets "github.com/pilotlight/pilotlight/discovery/secret/kubernetes"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func (s *settings) gatewayIdentities() []setting.Setting {
	return []setting.Setting{{
		Name: "gatewaySecrets", Kind: setting.List(&s.gatewaySecrets),
		Help: "namespaces and service accounts of gateways, as NAMESPACE/ACCOUNT, that get the Secrets which Gateways of that namespace name by " +
			"credentialName: of type kubernetes.io/tls, or with the keys cert, key and cacert; if empty, no Secret is read for Gateways",
	}}
}

// gatewayFaults returns the faults of these settings.
func (s *settings) gatewayFaults() (faults []error) {
	for _, identity := range s.gatewaySecrets {
		if !twoNames(identity) {
			faults = append(faults, s.origins.Fault("gatewaySecrets", identity, "NAMESPACE/ACCOUNT, with commas between several"))
		}
	}
	return faults
}

// namedByGateways are the Secrets of some namespaces, with the accounts that may receive their keys.
type namedByGateways struct {
	reader   *secrets.Source
	accounts map[string][]string // by namespace
}

// gatewaySecrets adds the source of the Secrets that Gateways name. It returns a Judge that finds the names in each
// mesh, nil for none.
func gatewaySecrets(server *discovery.Server, from cluster, identities []string) discovery.Judge {
	if len(identities) == 0 {
		return nil
	}
	g := namedByGateways{secrets.New(from.connect), map[string][]string{}}
	for _, identity := range identities {
		namespace, account, _ := strings.Cut(identity, "/")
		g.accounts[namespace] = append(g.accounts[namespace], account)
	}
	g.reader.Want(nil) // the first mesh does not exist yet, and waits for secrets
	server.Secrets["gatewaySecrets"] = g.reader
	return g
}

// Judge requests the Secrets that the Gateways of a mesh name.
func (g namedByGateways) Judge(m *model.Mesh) {
	var all []secret.Wanted
	for _, o := range m.Objects() {
		accounts := g.accounts[o.Namespace]
		if len(accounts) == 0 {
			continue
		}
		for _, name := range config.Credentials(o) {
			object := secret.Name{Namespace: o.Namespace, Name: name}
			all = append(all, secret.Wanted{Object: object, As: object, Accounts: accounts})
		}
	}
	g.reader.Want(all)
}

// judges judge each mesh, one after the other.
type judges []discovery.Judge

func (j judges) Judge(m *model.Mesh) {
	for _, one := range j {
		one.Judge(m)
	}
}
