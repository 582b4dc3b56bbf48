package issuer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/ca"
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

// What a pattern may take from a claim.
const (
	namespacePart = "{namespace}"
	accountPart   = "{serviceAccount}"
)

// claims are those that a token must have, in the order of the file.
type claims []claim

// claim is a claim, or one within another, and what it must be.
type claim struct {
	path []string
	want pattern
}

// pattern is a text with at most one of each part in it.
type pattern struct {
	text  string
	fixed []string // around the parts
	parts []string
}

// UnmarshalYAML reads claims: a name, and a pattern or the claims within it.
func (c *claims) UnmarshalYAML(node *yaml.Node) error { return c.read(node, nil) }

func (c *claims) read(node *yaml.Node, within []string) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: claims are no mapping, want NAME: PATTERN", node.Line)
	}
	seen := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		path := append(within[:len(within):len(within)], name.Value)
		switch {
		case seen[name.Value]:
			return fmt.Errorf("line %d: claim %q is there twice", name.Line, path)
		case value.Kind == yaml.MappingNode:
			if err := c.read(value, path); err != nil {
				return err
			}
		case value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" || value.Value == "":
			return fmt.Errorf("line %d: claim %q is %q, want a text (in quotes if need be) or further claims", value.Line, path, value.Value)
		default:
			p, err := newPattern(value.Value)
			if err != nil {
				return fmt.Errorf("line %d: claim %q: %w", value.Line, path, err)
			}
			*c = append(*c, claim{path, p})
		}
		seen[name.Value] = true
	}
	return nil
}

// newPattern reads a pattern. Between two parts must be a character that no name has, so that there is one way to read
// a claim.
func newPattern(text string) (pattern, error) {
	p := pattern{text: text}
	fixed := ""
	for rest := text; rest != ""; {
		switch at := rest[:1]; {
		case strings.HasPrefix(rest, namespacePart):
			p.parts, p.fixed, fixed, rest = append(p.parts, namespacePart), append(p.fixed, fixed), "", rest[len(namespacePart):]
		case strings.HasPrefix(rest, accountPart):
			p.parts, p.fixed, fixed, rest = append(p.parts, accountPart), append(p.fixed, fixed), "", rest[len(accountPart):]
		case at == "{" || at == "}":
			return pattern{}, fmt.Errorf("the pattern %q has braces, want none but %s and %s", text, namespacePart, accountPart)
		default:
			fixed, rest = fixed+at, rest[1:]
		}
	}
	p.fixed = append(p.fixed, fixed)
	switch {
	case len(p.parts) > 2 || len(p.parts) == 2 && p.parts[0] == p.parts[1]:
		return pattern{}, fmt.Errorf("the pattern %q has a part twice", text)
	case len(p.parts) == 2 && strings.Trim(p.fixed[1], "abcdefghijklmnopqrstuvwxyz0123456789-.") == "":
		return pattern{}, fmt.Errorf("the pattern %q has %q between its parts, want a character there that no name has, such as ':' or '/'", text, p.fixed[1])
	}
	return p, nil
}

// match puts the parts of a text into found, and reports whether the text fits.
func (p pattern) match(text string, found map[string]string) bool {
	rest, ok := strings.CutPrefix(text, p.fixed[0])
	if !ok || len(p.parts) == 0 {
		return ok && rest == ""
	}
	if rest, ok = strings.CutSuffix(rest, p.fixed[len(p.fixed)-1]); !ok {
		return false
	}
	if len(p.parts) == 2 {
		if found[p.parts[0]], rest, ok = strings.Cut(rest, p.fixed[1]); !ok {
			return false
		}
	}
	found[p.parts[len(p.parts)-1]] = rest
	return true
}

// check returns what is wrong with an identity: each part of it comes from one place, and a claim is asked for.
func (i Identity) check() error {
	if len(i.Claims) == 0 {
		return errors.New("claims are empty, so that every token of the issuer would be it: want at least one")
	}
	given := map[string]int{}
	for _, c := range i.Claims {
		for _, part := range c.want.parts {
			given[part]++
		}
	}
	for _, of := range []struct{ name, part, fixed string }{
		{"namespace", namespacePart, i.Namespace}, {"serviceAccount", accountPart, i.ServiceAccount},
	} {
		if of.fixed != "" {
			given[of.part]++
		}
		if given[of.part] != 1 {
			return fmt.Errorf("%s is given %d times, want once: fixed, or as %s in a claim", of.name, given[of.part], of.part)
		}
	}
	_, err := ca.NewIdentity("cluster.local", cmp.Or(i.Namespace, "trial"), cmp.Or(i.ServiceAccount, "trial"))
	return err
}

// of returns the identity of claims; misfit says which claim does not fit, "" if all do. Claims do not give the root
// namespace, whose identities may see the whole mesh.
func (i Identity) of(all map[string]any, trustDomain, root string) (id ca.Identity, misfit string, err error) {
	found := map[string]string{namespacePart: i.Namespace, accountPart: i.ServiceAccount}
	for _, c := range i.Claims {
		text, is := c.in(all)
		if !is {
			return ca.Identity{}, fmt.Sprintf("claim %q is no text in it, want %q", c.path, c.want.text), nil
		}
		if !c.want.match(text, found) {
			return ca.Identity{}, fmt.Sprintf("claim %q is %.200q, want %q", c.path, text, c.want.text), nil
		}
	}
	if i.Namespace == "" && found[namespacePart] == root {
		return ca.Identity{}, "", fmt.Errorf("its claims give the root namespace %q, whose identities may see the whole mesh: want it fixed in --caIssuers, namespace: %[1]s", root)
	}
	id, err = ca.NewIdentity(trustDomain, found[namespacePart], found[accountPart])
	return id, "", err
}

// in returns the text of a claim.
func (c claim) in(all map[string]any) (string, bool) {
	for _, name := range c.path[:len(c.path)-1] {
		within, is := all[name].(map[string]any)
		if !is {
			return "", false
		}
		all = within
	}
	text, is := all[c.path[len(c.path)-1]].(string)
	return text, is
}
