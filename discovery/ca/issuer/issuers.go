package issuer

import (
	"context"
	"crypto"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Issuers are the issuers of a file. Their keys are read by Reload.
type Issuers struct {
	all  []Issuer
	root func() string // the root namespace
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	keys   map[string][]key  // last good ones, by issuer
	said   map[string]string // by issuer: what was said of its file last
	faults map[string]string // by issuer
}

// Open reads the issuers of a file, and their keys. A file of keys that cannot be used is told by Faults: it may come
// later, and other tokens do not need it. root returns the root namespace: no claim gives it.
func Open(path string, root func() string, log *slog.Logger, now func() time.Time) (*Issuers, error) {
	text, err := safefile.Read(path, longestSet)
	if err != nil {
		return nil, err
	}
	all, err := Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range all {
		if !filepath.IsAbs(all[i].File) {
			all[i].File = filepath.Join(filepath.Dir(path), all[i].File)
		}
	}
	i := &Issuers{all: all, root: root, log: log, now: now, keys: map[string][]key{}, said: map[string]string{}, faults: map[string]string{}}
	i.Reload()
	return i, nil
}

// Files are those that Reload reads.
func (i *Issuers) Files() (out []string) {
	for _, issuer := range i.all {
		out = append(out, issuer.File)
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// Reload reads the keys again. A file that cannot be used leaves the keys of before.
func (i *Issuers) Reload() {
	for _, issuer := range i.all {
		text, err := safefile.Read(issuer.File, longestSet)
		var keys []key
		var notes []string
		if err == nil {
			if keys, notes, err = readKeys(text); err != nil {
				err = fmt.Errorf("%s: %w", issuer.File, err)
			}
		}
		i.take(issuer, keys, notes, err)
	}
}

// take stores what was read, and says it where it is another.
func (i *Issuers) take(issuer Issuer, keys []key, notes []string, err error) {
	said := strings.Join(notes, "; ")
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.keys[issuer.Name]
	same := slices.EqualFunc(before, keys, func(a, b key) bool { return a.id == b.id && equal(a.public, b.public) && slices.Equal(a.fits, b.fits) })
	if err != nil {
		said = err.Error()
		i.faults[issuer.Name] = fmt.Sprintf("issuer %q: its keys cannot be read, %d of before are used: %s", issuer.Name, len(before), strings.Join(append(notes, said), "; "))
		if i.said[issuer.Name] != said {
			i.log.Error("keys of an issuer not read, the last ones stay", "issuer", issuer.Name, "keys", len(before), "err", said, "notes", notes)
		}
	} else {
		delete(i.faults, issuer.Name)
		i.keys[issuer.Name] = keys
		if !same || i.said[issuer.Name] != said {
			i.log.Info("keys of an issuer read", "issuer", issuer.Name, "jwksFile", issuer.File, "keys", len(keys), "left out", notes)
		}
	}
	i.said[issuer.Name] = said
}

func equal(a, b any) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// Faults returns a line for each issuer whose keys cannot be read.
func (i *Issuers) Faults() (out []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, issuer := range slices.Sorted(maps.Keys(i.faults)) {
		out = append(out, i.faults[issuer])
	}
	return out
}

// Identify is a server.Authenticator.
func (i *Issuers) Identify(_ context.Context, token, trustDomain string) (ca.Identity, error) {
	i.mu.Lock()
	keys := maps.Clone(i.keys)
	i.mu.Unlock()
	return judge(i.all, keys, token, trustDomain, i.root(), i.now())
}
