package sds

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
)

// Open makes a certificate with a key under a name, so that an Envoy that waits for a secret of this name goes on. The key is
// new, and the certificate proves nothing: it is signed by nobody.
func (s *Server) Open(name string) error {
	secret, err := newGateSecret(name)
	if err != nil {
		return fmt.Errorf("make the certificate %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = maps.Clone(s.gates)
	if s.gates == nil {
		s.gates = Secrets{}
	}
	s.gates[name] = secret
	s.announce()
	return nil
}

// Shut forgets the certificate of a name.
func (s *Server) Shut(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = maps.Clone(s.gates)
	delete(s.gates, name)
	s.announce()
}

// A certificate of a P-256 key in DER (RFC 5280), before and after the public key: CN=agent_gate, valid until the end of 9999. Envoy
// checks that certificate and key match, and no signature. A call of x509.CreateCertificate would add 70 KB to the agent.
const (
	certificateHead = "308201193081bfa003020102020101300a06082a8648ce3d04030230153113301106035504030c0a6167656e745f67617465" +
		"3020170d3230303130313030303030305a180f39393939313233313233353935395a30153113301106035504030c0a6167656e745f67617465" +
		"3059301306072a8648ce3d020106082a8648ce3d030107034200"
	certificateTail = "300a06082a8648ce3d0403020349003046022100e2b7c860b7bf5c003872023ba86a920f57e3adbcbf97bce3782180ebd4f7bdf7" +
		"0221008f156392c2c01ce4cf43dfe1fcc36103ba0ff8d0d9025585a7e019ddec98ef4e"
	keyHead = "30310201010420" // ECPrivateKey (RFC 5915), before and after the 32 bytes
	keyTail = "a00a06082a8648ce3d030107"
)

func newGateSecret(name string) (Secret, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return Secret{}, err
	}
	chain, err := around(certificateHead, key.PublicKey().Bytes(), certificateTail)
	if err != nil {
		return Secret{}, err
	}
	private, err := around(keyHead, key.Bytes(), keyTail)
	if err != nil {
		return Secret{}, err
	}
	out := Secrets{}
	out.add(name, [3][]byte{
		armored("CERTIFICATE", chain),
		armored("EC PRIVATE KEY", private),
	})
	return out[name], nil
}

func around(head string, middle []byte, tail string) ([]byte, error) {
	before, err := hex.DecodeString(head)
	if err != nil {
		return nil, err
	}
	after, err := hex.DecodeString(tail)
	return append(append(before, middle...), after...), err
}

// armored returns PEM, as package encoding/pem writes it; that one would add 7 KB to the agent.
func armored(kind string, der []byte) []byte {
	out, text := "-----BEGIN "+kind+"-----\n", base64.StdEncoding.EncodeToString(der)
	for len(text) > 0 {
		n := min(64, len(text))
		out, text = out+text[:n]+"\n", text[n:]
	}
	return []byte(out + "-----END " + kind + "-----\n")
}
