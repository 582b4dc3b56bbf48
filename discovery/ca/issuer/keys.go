package issuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

const (
	longestSet = 1 << 20 // bytes of a key set
	mostKeys   = 64      // of one
)

// algorithms are those by which a token may be signed: of public keys, no other.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// key is a key of an issuer.
type key struct {
	id     string // "" for none
	fits   []string
	public any
}

// readKeys reads a JWKS. A key that signs no token here is left out, and notes say why; a set without any other is an error.
func readKeys(text []byte) (out []key, notes []string, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, nil, fmt.Errorf(`is not JSON {"keys": […]}: %w`, err)
	}
	if len(set.Keys) > mostKeys {
		return nil, nil, fmt.Errorf("has %d keys, at most %d are allowed", len(set.Keys), mostKeys)
	}
	for i, raw := range set.Keys {
		k, err := readKey(raw)
		if err != nil {
			notes = append(notes, fmt.Sprintf("keys[%d]: %v", i, err))
			continue
		}
		if k.id != "" && slices.ContainsFunc(out, func(o key) bool { return o.id == k.id && overlap(o.fits, k.fits) }) {
			return nil, nil, fmt.Errorf("keys[%d]: the kid %.100q is there twice", i, k.id)
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, notes, errors.New("has no key by which a token may be signed")
	}
	return out, notes, nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// readKey reads a key of a set. An error has no part of the key.
func readKey(raw []byte) (key, error) {
	var k jwk
	if err := json.Unmarshal(raw, &k); err != nil {
		return key{}, errors.New("is no JSON object of texts")
	}
	public, fits, err := k.public()
	switch {
	case k.Secret != nil:
		return key{}, errors.New("is a private key, so that a reader of this file could make tokens; want the public one of another pair")
	case err != nil:
		return key{}, err
	case k.Use != "" && k.Use != "sig":
		return key{}, fmt.Errorf("is for the use %.20q, want sig", k.Use)
	case k.Algorithm != "":
		if !slices.Contains(fits, k.Algorithm) {
			return key{}, fmt.Errorf("is for the algorithm %.20q, want one of %q", k.Algorithm, fits)
		}
		fits = []string{k.Algorithm}
	}
	return key{id: k.ID, fits: fits, public: public}, nil
}
