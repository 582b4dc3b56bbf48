package model

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Limits of a key set: without a name in a token each key is tried.
const (
	maxKeySet = 256 << 10 // bytes
	maxKeys   = 64
)

// jsonKey is a JSON Web Key, RFC 7517: what Envoy reads of a public one.
type jsonKey struct {
	Kind      string `json:"kty"`
	Name      string `json:"kid,omitempty"`
	Algorithm string `json:"alg,omitempty"`
	Curve     string `json:"crv,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	K         string `json:"k,omitempty"`
}

// ReadKeySet reads a JSON Web Key Set. keys is the set for Envoy: it has the keys that Envoy takes, and of these what it
// reads, since it refuses a listener for a set without one. fault says why there is none; doubt what is remarkable in a set
// that can be used, "" for nothing.
func ReadKeySet(text string) (keys, fault, doubt string) {
	if len(text) > maxKeySet {
		return "", fmt.Sprintf("has %d bytes, want at most %d", len(text), maxKeySet), ""
	}
	var set map[string]json.RawMessage // by exact names
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return "", fmt.Sprintf("is no JSON Web Key Set: %v", err), ""
	}
	if err := json.Unmarshal(set["keys"], &all); err != nil && set["keys"] != nil {
		return "", fmt.Sprintf("is no JSON Web Key Set: keys: %v", err), ""
	}
	if len(all) > maxKeys {
		return "", fmt.Sprintf("has %d keys, want at most %d", len(all), maxKeys), ""
	}
	var usable []jsonKey
	for i, raw := range all {
		k, private, why := readKey(raw)
		switch {
		case why != "":
			doubt = fmt.Sprintf("has in keys[%d] what is left out: %s", i, why)
			continue
		case private:
			doubt = fmt.Sprintf("has in keys[%d] a private key, which can sign: want the public one alone", i)
		}
		usable = append(usable, k)
	}
	if len(usable) == 0 {
		fault = `has no key that Envoy knows, want {"keys": [...]} with one of kty RSA, EC, OKP or oct`
		if doubt != "" {
			fault += "; it " + doubt
		}
		return "", fault, ""
	}
	out, err := json.Marshal(map[string][]jsonKey{"keys": usable})
	if err != nil {
		return "", fmt.Sprintf("is no JSON Web Key Set: %v", err), ""
	}
	return string(out), "", doubt
}

// readKey reads one key; private is whether it can sign, fault why Envoy does not take it.
func readKey(raw json.RawMessage) (k jsonKey, private bool, fault string) {
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return k, false, "it is no object"
	}
	for name, to := range map[string]*string{
		"kty": &k.Kind, "kid": &k.Name, "alg": &k.Algorithm, "crv": &k.Curve, "n": &k.N, "e": &k.E, "x": &k.X, "y": &k.Y, "k": &k.K,
	} {
		value, given := members[name]
		text, is := value.(string)
		if given && !is {
			return k, false, name + " is no text"
		}
		*to = text
	}
	for _, n := range []*string{&k.N, &k.E, &k.X, &k.Y, &k.K} {
		*n = base64.RawURLEncoding.EncodeToString(number(*n))
	}
	if members["use"] == "enc" {
		return k, false, "it is for encryption"
	}
	_, private = members["d"]
	return k, private, k.fault()
}

// curves has the bytes of a coordinate and the algorithm of each curve.
func curves(name string) (size int, algorithm string, curve ecdh.Curve) {
	switch name {
	case "P-256":
		return 32, "ES256", ecdh.P256()
	case "P-384":
		return 48, "ES384", ecdh.P384()
	case "P-521":
		return 66, "ES512", ecdh.P521()
	}
	return 0, "", nil
}

// fault returns why Envoy does not take a key, "" if it does.
func (k jsonKey) fault() string {
	var algorithms []string
	why := ""
	switch k.Kind {
	case "RSA":
		algorithms, why = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, k.faultOfRSA()
	case "EC":
		size, algorithm, curve := curves(k.Curve)
		if curve == nil {
			return fmt.Sprintf("crv is %q, want P-256, P-384 or P-521", k.Curve)
		}
		x, y := number(k.X), number(k.Y)
		if len(x) != size || len(y) != size {
			return fmt.Sprintf("x or y has not %d bytes in base64url", size)
		}
		if _, err := curve.NewPublicKey(slices.Concat([]byte{4}, x, y)); err != nil {
			return "x and y are no point of " + k.Curve
		}
		algorithms = []string{algorithm}
	case "OKP":
		if k.Curve != "Ed25519" || len(number(k.X)) != 32 {
			return fmt.Sprintf("crv is %q with an x of %d bytes, want Ed25519 and 32", k.Curve, len(number(k.X)))
		}
		algorithms = []string{"EdDSA"}
	case "oct":
		if len(number(k.K)) == 0 {
			return "k is missing, or no base64url"
		}
		algorithms = []string{"HS256", "HS384", "HS512"}
	default:
		return fmt.Sprintf("kty is %q, want RSA, EC, OKP or oct", k.Kind)
	}
	if why == "" && k.Algorithm != "" && !slices.Contains(algorithms, k.Algorithm) {
		why = fmt.Sprintf("alg is %q, want %s", k.Algorithm, strings.Join(algorithms, ", "))
	}
	return why
}

func (k jsonKey) faultOfRSA() string {
	n, e := new(big.Int).SetBytes(number(k.N)), new(big.Int).SetBytes(number(k.E))
	switch {
	case n.Sign() == 0 || e.Sign() == 0:
		return "a number of it is missing, or no base64url"
	case n.BitLen() < 1024 || n.BitLen() > 8192 || n.Bit(0) == 0:
		return fmt.Sprintf("n has %d bits, want an odd number of 1024 to 8192", n.BitLen())
	case e.BitLen() > 32 || e.Bit(0) == 0 || e.Cmp(big.NewInt(3)) < 0:
		return fmt.Sprintf("e is %s, want an odd number of 3 to 4294967295", e)
	}
	return ""
}

// number returns the bytes of base64url; nil for another text.
func number(text string) []byte {
	out, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil
	}
	return out
}
