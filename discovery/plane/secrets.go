package plane

import (
	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
	secrets "github.com/pilotlight/pilotlight/discovery/secret/kubernetes"
)

// gatewaySecrets asks for the Secrets that the Gateways of each mesh name. It implements discovery.Judge.
type gatewaySecrets struct {
	reader   *secrets.Source
	accounts map[string][]string // by namespace
}

// newGatewaySecrets returns what asks a cluster for the Secrets of Gateways; nil if no account gets any.
func newGatewaySecrets(from Cluster, accounts []Name) *gatewaySecrets {
	if len(accounts) == 0 {
		return nil
	}
	g := &gatewaySecrets{secrets.New(from.connect), map[string][]string{}}
	for _, a := range accounts {
		g.accounts[a.Namespace] = append(g.accounts[a.Namespace], a.Name)
	}
	g.reader.Want(nil) // the first mesh does not exist yet, and waits for secrets
	return g
}

// Judge requests the Secrets that the Gateways of a mesh name.
func (g *gatewaySecrets) Judge(m *model.Mesh) {
	g.reader.Want(wantedByGateways(m.Objects(), g.accounts))
}

// lacking says why a secret that a proxy asks for is not there.
func (g *gatewaySecrets) lacking(namespace, name string) string {
	return lackingOfGateway(secret.Name{Namespace: namespace, Name: name}, g.accounts, g.reader.Known())
}

// ingressSecrets are the Secrets that the ingress proxies may receive: those of a directory, and those of the API
// server that are not there.
type ingressSecrets struct {
	dir     *secretfile.Source // nil for none
	reader  *secrets.Source    // nil for none
	account Name               // of the ingress proxies

	wanted []ingress.Name // of the last call of Want
}

// places returns what is known of the directory and of the API server.
func (n *ingressSecrets) places() (dir, api lookup) {
	if n.dir != nil {
		dir = lookup{true, n.dir.Known()}
	}
	if n.reader != nil {
		api = lookup{true, n.reader.Known()}
	}
	return dir, api
}

// Want sets the Secrets to read.
func (n *ingressSecrets) Want(names []ingress.Name) {
	dir, _ := n.places()
	fromDir, fromAPI := wantedByIngresses(names, n.account, dir)
	if n.dir != nil {
		n.dir.Want(fromDir)
	}
	if n.reader != nil {
		n.reader.Want(fromAPI)
	}
	n.wanted = names
}

// Known returns the faults of the Secrets that were read.
func (n *ingressSecrets) Known() map[ingress.Name]string {
	dir, api := n.places()
	return faultsOfIngresses(n.wanted, dir, api)
}

// judges judge each mesh, one after the other.
type judges []discovery.Judge

func (j judges) Judge(m *model.Mesh) {
	for _, one := range j {
		one.Judge(m)
	}
}
