package plane

import (
	"crypto/x509"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/keys"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// KeySets says how discovery fetches the keys that policies name by jwksUri.
type KeySets struct {
	Roots  string // file of the roots of https servers, PEM; "" for those of the system
	Inside bool   // also at addresses that are not of the Internet
}

// keySetsName is the name of the source of key sets.
const keySetsName = "jwksUri"

// keySets tells the source of key sets which ones the policies of the mesh name. The source begins with the first of
// them.
type keySets struct {
	source *keys.Source
	add    func(name string, source discovery.Source)

	mu    sync.Mutex
	known bool
	added bool
	last  []model.KeyAddress
}

func newKeySets(c KeySets) (*keySets, error) {
	var roots *x509.CertPool
	if c.Roots != "" {
		text, err := os.ReadFile(c.Roots)
		if err != nil {
			return nil, fmt.Errorf("--jwksRoots: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--jwksRoots: %s has no certificate, want one or more in PEM", c.Roots)
		}
	}
	return &keySets{source: keys.NewSource(keys.New(roots, c.Inside))}, nil
}

// Judge reads the policies of a mesh that is served.
func (k *keySets) Judge(m *model.Mesh) {
	k.want(m.KeyAddresses())
}

// Preview reads the policies of the first mesh before it is served: it waits for their keys, so that proxies that come
// back do not lose those that they have.
func (k *keySets) Preview(groups iter.Seq[model.Group]) { k.want(model.KeyAddresses(groups)) }

func (k *keySets) want(all []model.KeyAddress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known || !slices.Equal(all, k.last) {
		k.source.Want(all)
		k.known, k.last = true, all
	}
	if !k.added && len(all) > 0 {
		k.added = true
		k.add(keySetsName, k.source)
	}
}

// join makes the source one of those that the server starts with, if an earlier run has kept key sets.
func (k *keySets) join(s *discovery.Server) {
	k.add, s.Preview = s.Add, k.Preview
	if _, kept := s.Remembered[keySetsName]; kept {
		k.added = true
		s.Sources[keySetsName] = k.source
	}
}
