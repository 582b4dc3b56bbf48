package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
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

// readKeys reads a JWKS. A key that signs no token here is left out, and notes say why; a set without any other is an
// error.
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

const (
	leastRSA    = 2048  // bits
	mostRSA     = 8192  // bits: checking a signature costs their square
	leastPublic = 65537 // exponent
	mostPublic  = 1<<31 - 1
)

// jwk is a key as RFC 7517 and RFC 7518 write it.
type jwk struct {
	Type      string  `json:"kty"`
	Use       string  `json:"use"`
	Algorithm string  `json:"alg"`
	ID        string  `json:"kid"`
	Curve     string  `json:"crv"`
	X         string  `json:"x"`
	Y         string  `json:"y"`
	N         string  `json:"n"`
	E         string  `json:"e"`
	Secret    *string `json:"d"` // is there in a private key alone
}

// public returns the public key, and the algorithms for which it may be used: that of a curve is one.
func (k jwk) public() (crypto.PublicKey, []string, error) {
	switch k.Type {
	case "RSA":
		key, err := k.rsa()
		return key, algorithms[:6:6], err
	case "EC":
		key, algorithm, err := k.ec()
		return key, []string{algorithm}, err
	case "OKP":
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if k.Curve != "Ed25519" || err != nil || len(x) != ed25519.PublicKeySize {
			return nil, nil, fmt.Errorf("is of curve %.20q with %d bytes, want Ed25519 with %d", k.Curve, len(x), ed25519.PublicKeySize)
		}
		return ed25519.PublicKey(x), algorithms[9:], nil
	case "oct":
		return nil, nil, errors.New("is symmetric, so that a reader of this file could make tokens; want a public key")
	default:
		return nil, nil, fmt.Errorf("has the kty %.20q, want RSA, EC or OKP", k.Type)
	}
}

func (k jwk) rsa() (*rsa.PublicKey, error) {
	n, errN := base64.RawURLEncoding.Strict().DecodeString(k.N)
	e, errE := base64.RawURLEncoding.Strict().DecodeString(k.E)
	if errN != nil || errE != nil || len(n) > mostRSA {
		return nil, errors.New("is RSA, and its n or e is no base64url, or is too long")
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if bits := modulus.BitLen(); bits < leastRSA || bits > mostRSA || exponent.Cmp(big.NewInt(leastPublic)) < 0 || exponent.Cmp(big.NewInt(mostPublic)) > 0 {
		return nil, fmt.Errorf("is RSA of %d bits with the exponent %.20s, want %d to %d bits and %d at least", bits, exponent, leastRSA, mostRSA, leastPublic)
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

func (k jwk) ec() (*ecdsa.PublicKey, string, error) {
	for curve, algorithm := range map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"} {
		if curve.Params().Name != k.Curve {
			continue
		}
		size := (curve.Params().BitSize + 7) / 8
		x, errX := base64.RawURLEncoding.Strict().DecodeString(k.X)
		y, errY := base64.RawURLEncoding.Strict().DecodeString(k.Y)
		if errX != nil || errY != nil || len(x) != size || len(y) != size {
			return nil, "", fmt.Errorf("is of curve %s, and its x or y is not %d bytes of base64url", k.Curve, size)
		}
		key, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
		if err != nil {
			return nil, "", fmt.Errorf("is no point of curve %s", k.Curve)
		}
		return key, algorithm, nil
	}
	return nil, "", fmt.Errorf("is of curve %.20q, want P-256, P-384 or P-521", k.Curve)
}
