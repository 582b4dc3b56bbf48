package sds

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// The names that Istio's control plane gives to a workload's own secrets.
const (
	Certificate = "default" // chain and key
	Roots       = "ROOTCA"  // whose certificates are trusted
)

// Secret is a secret in the form in which it is sent.
type Secret struct {
	Name    string
	version string
	message []byte // envoy.extensions.transport_sockets.tls.v3.Secret
}

// Secrets are the secrets of a workload, by name.
type Secrets map[string]Secret

// NewSecrets makes a workload's secrets from PEM. An empty text makes no secret.
func NewSecrets(chain, key, roots []byte) Secrets {
	out := Secrets{}
	if len(chain) > 0 && len(key) > 0 {
		out.add(Certificate, [3][]byte{chain, key})
	}
	if len(roots) > 0 {
		out.add(Roots, [3][]byte{2: roots})
	}
	return out
}

// Carried returns the secrets in the form in which another image of the agent reads them, by name.
func (s Secrets) Carried() map[string][]byte {
	out := map[string][]byte{}
	for name, secret := range s {
		out[name] = secret.message
	}
	return out
}

// Resume returns the secrets of Carried.
func Resume(carried map[string][]byte) Secrets {
	out := Secrets{}
	for name, message := range carried {
		out.put(name, message)
	}
	return out
}

// Cover reports whether s has every secret that the others have.
func (s Secrets) Cover(others Secrets) bool {
	for name := range others {
		if _, ok := s[name]; !ok {
			return false
		}
	}
	return true
}

// Whole reports whether the workload has a certificate, and roots that it trusts.
func (s Secrets) Whole() bool {
	_, certificate := s[Certificate]
	_, roots := s[Roots]
	return certificate && roots
}

// add adds a secret of chain and key, or of roots.
func (s Secrets) add(name string, pem [3][]byte) {
	number, content := 4, frame.Append(nil, 1, inline(pem[2])) // validation_context with trusted_ca
	if pem[0] != nil {
		number, content = 2, frame.Append(frame.Append(nil, 1, inline(pem[0])), 2, inline(pem[1])) // tls_certificate
	}
	s.put(name, frame.Append(frame.Append(nil, 1, []byte(name)), number, content))
}

func (s Secrets) put(name string, message []byte) {
	sum := sha256.Sum256(message)
	s[name] = Secret{Name: name, version: hex.EncodeToString(sum[:8]), message: message}
}

func (s Secrets) equal(other Secrets) bool {
	return maps.EqualFunc(s, other, func(a, b Secret) bool { return a.version == b.version })
}

// inline is a DataSource with inline_bytes.
func inline(content []byte) []byte { return frame.Append(nil, 2, content) }
