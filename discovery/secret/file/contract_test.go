package file

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// A directory of secrets keeps the contract of a source of secrets.
func TestContract(t *testing.T) {
	sourcetest.RunSecrets(t, func(t *testing.T) sourcetest.SecretStore {
		dir := filepath.Join(t.TempDir(), "secrets")
		at := func(name string) string { return filepath.Join(dir, "shop", name) }
		must(t, os.MkdirAll(filepath.Join(dir, "shop"), 0o755))
		return sourcetest.SecretStore{
			Source:    New(dir, slog.New(slog.DiscardHandler)),
			Namespace: "shop",
			Put: func(name string) secret.Secret {
				id := identity(t)
				put(t, at(name), map[string]string{"tls.crt": string(id.Chain), "tls.key": string(id.Key)})
				return secret.Secret{Certificate: id.Chain, Key: id.Key}
			},
			Delete: func(name string) { must(t, os.RemoveAll(at(name))) },
			Spoil:  func(name string) { put(t, at(name), map[string]string{"tls.crt": "half a certificate"}) },
			Break:  func() { must(t, os.Rename(dir, dir+".away")) },
			Mend:   func() { must(t, os.Rename(dir+".away", dir)) },
			Touch:  func() { put(t, at("a"), map[string]string{"more": ""}) },
		}
	})
}
