package issuer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Audience is that of tokens whose issuer names no other, as Istio has it.
const Audience = "istio-ca"

// Issuer is an issuer whose tokens are taken.
type Issuer struct {
	Name       string     `yaml:"issuer"`     // as iss has it
	File       string     `yaml:"jwksFile"`   // of its keys, a JWKS
	Audiences  []string   `yaml:"audiences"`  // a token must be for one of them
	Identities []Identity `yaml:"identities"` // the first whose claims all fit decides
}

// Identity is who the bearer of a token is. Namespace and ServiceAccount are fixed, or "" where a claim gives them.
type Identity struct {
	Claims         claims `yaml:"claims"`
	Namespace      string `yaml:"namespace"`
	ServiceAccount string `yaml:"serviceAccount"`
}

// Read reads issuers.
func Read(text []byte) ([]Issuer, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var file struct {
		Issuers []Issuer `yaml:"issuers"`
	}
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("has a second document, want one")
	}
	if len(file.Issuers) == 0 {
		return nil, errors.New("has no issuers, want a list of them")
	}
	named := map[string]bool{}
	for i := range file.Issuers {
		issuer := &file.Issuers[i]
		if issuer.Audiences == nil {
			issuer.Audiences = []string{Audience}
		}
		switch {
		case issuer.Name == "":
			return nil, fmt.Errorf("issuers[%d]: issuer is empty, want the iss of its tokens", i)
		case named[issuer.Name]:
			return nil, fmt.Errorf("issuer %q is there twice, want one entry with several identities", issuer.Name)
		case issuer.File == "":
			return nil, fmt.Errorf("issuer %q: jwksFile is empty, want the file of its keys", issuer.Name)
		case len(issuer.Audiences) == 0 || slices.Contains(issuer.Audiences, ""):
			return nil, fmt.Errorf("issuer %q: audiences are %q, want at least one, and none that is empty", issuer.Name, issuer.Audiences)
		case len(issuer.Identities) == 0:
			return nil, fmt.Errorf("issuer %q: identities are empty, want claims that give a namespace and a service account", issuer.Name)
		}
		named[issuer.Name] = true
		for j, identity := range issuer.Identities {
			if err := identity.check(); err != nil {
				return nil, fmt.Errorf("issuer %q: identities[%d]: %w", issuer.Name, j, err)
			}
		}
	}
	return file.Issuers, nil
}
