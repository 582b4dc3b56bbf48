package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pilotlight/pilotlight/internal/atomicfile"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// pendingFile has the key of a request that was not answered: a token that may be used once is for this key. It is there before
// the authority is asked, for an agent that is killed before it has the answer.
const pendingFile = "..pending.pem"

// pending is that key.
type pending struct {
	directory *directory
	key       *ecdsa.PrivateKey // nil before the first request
	text      []byte            // of the key, PEM
}

// request returns a request for a certificate in the place of another one, nil for none.
func (p *pending) request(before *held) (csr []byte, err error) {
	if p.key == nil {
		if err := p.load(before); err != nil {
			return nil, err
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, p.key)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// load takes the key of an agent that ended, or makes one. Each certificate has a key of its own.
func (p *pending) load(before *held) error {
	if key, text := p.read(); key != nil && !isOf(key, before) {
		p.key, p.text = key, text
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := atomicfile.Write(p.path()+".new", p.path(), text, 0o600); err != nil {
		return fmt.Errorf("the authority is not asked, for the key of the request cannot be kept: %w", err)
	}
	p.key, p.text = key, text
	return nil
}

func isOf(key *ecdsa.PrivateKey, h *held) bool {
	return h != nil && key.PublicKey.Equal(h.pair.Leaf.PublicKey)
}

func (p *pending) path() string { return filepath.Join(p.directory.path, pendingFile) }

// read returns the key in the file, nil where there is none.
func (p *pending) read() (*ecdsa.PrivateKey, []byte) {
	text, err := safefile.Read(p.path(), longestToken)
	if err != nil {
		return nil, nil
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if k, is := key.(*ecdsa.PrivateKey); is && err == nil && k.Curve == elliptic.P256() {
		return k, text
	}
	return nil, nil
}

// answered forgets the key, which is beside its certificate now.
func (p *pending) answered() error {
	p.key, p.text = nil, nil
	if err := os.Remove(p.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
