package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The keys of the Secret, and the label of a Secret that discovery made.
const (
	certificateKey, keyKey, rootsKey = "tls.crt", "tls.key", "ca.crt"
	previousCertificate, previousKey = "previous.crt", "previous.key"
	ownerLabel, owner                = "app.kubernetes.io/managed-by", "pilotlight-discovery"
)

// pairs is the content of a Secret: the newest pair, and the one before, which is nil at first.
type pairs struct{ newest, previous *pair }

// readPairs reads a Secret's data; it returns nil for an empty Secret.
func readPairs(data map[string][]byte) (*pairs, error) {
	if len(data) == 0 {
		return nil, nil
	}
	newest, err := readPair(data[certificateKey], data[keyKey], data[rootsKey])
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %s: %w", certificateKey, keyKey, rootsKey, err)
	}
	if len(data[previousCertificate]) == 0 {
		return &pairs{newest: newest}, nil
	}
	previous, err := readPair(data[previousCertificate], data[previousKey], data[rootsKey])
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %s: %w", previousCertificate, previousKey, rootsKey, err)
	}
	return &pairs{newest, previous}, nil
}

// data returns the data of the Secret.
func (p *pairs) data() map[string][]byte {
	out := map[string][]byte{certificateKey: p.newest.certificate, keyKey: p.newest.key, rootsKey: p.roots()}
	if p.previous != nil {
		maps.Copy(out, map[string][]byte{previousCertificate: p.previous.certificate, previousKey: p.previous.key})
	}
	return out
}

// roots returns the roots of both pairs, as PEM, for the API servers to trust.
func (p *pairs) roots() []byte {
	out := slices.Clone(p.newest.root)
	if p.previous != nil {
		out = append(out, p.previous.root...)
	}
	return out
}

// served returns the pair to serve. As long as there is an older pair, a new one waits until the API servers have its
// root.
func (p *pairs) served(names []string, now time.Time) *pair {
	if p.previous.serves(names, now) && (!p.newest.serves(names, now) || now.Before(p.newest.made().Add(settling))) {
		return p.previous
	}
	return p.newest
}

// plan returns the pairs that are to replace those of a Secret, and the reason; nil if nothing is to change. It decides
// the same in all replicas.
func plan(found *pairs, names []string, now time.Time) (next *pairs, why string, err error) {
	var keep *pair
	switch {
	case found == nil:
		why = "there was none"
	case len(found.newest.missing(names)) > 0:
		why = "it is not for " + strings.Join(found.newest.missing(names), ", ")
		names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, found.newest.names())))) // another replica may need them
		keep = found.served(names, now)
	case found.newest.old(now):
		why, keep = "the last one ends "+found.newest.leaf().NotAfter.Format(time.RFC3339), found.served(names, now)
	case !found.newest.valid(now) && !found.previous.serves(names, now):
		why, keep = "the last one begins "+found.newest.leaf().NotBefore.Format(time.RFC3339)+": the clock of this host, or of another replica, is wrong", found.newest
	default:
		return nil, "", nil
	}
	made, err := newPair(names, now)
	if err != nil {
		return nil, "", err
	}
	return &pairs{made, keep}, why, nil
}
