package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The keys of the Secret, and the label that says that it is ours.
const (
	certificateKey, keyKey, rootsKey = "tls.crt", "tls.key", "ca.crt"
	previousCertificate, previousKey = "previous.crt", "previous.key"
	ownerLabel, owner                = "app.kubernetes.io/managed-by", "pilotlight-discovery"
)

// pairs are what a Secret holds: the newest pair, and the one before, which is nil at first.
type pairs struct{ newest, previous *pair }

// readPairs reads a Secret's data; nil where it holds nothing.
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

// data is what the Secret is to hold.
func (p *pairs) data() map[string][]byte {
	out := map[string][]byte{certificateKey: p.newest.certificate, keyKey: p.newest.key, rootsKey: p.roots()}
	if p.previous != nil {
		maps.Copy(out, map[string][]byte{previousCertificate: p.previous.certificate, previousKey: p.previous.key})
	}
	return out
}

// roots are those of both pairs, PEM: what API servers are to trust.
func (p *pairs) roots() []byte {
	out := slices.Clone(p.newest.root)
	if p.previous != nil {
		out = append(out, p.previous.root...)
	}
	return out
}

// served returns the pair to serve. A new one waits until its root is known, as long as there is another.
func (p *pairs) served(names []string, now time.Time) *pair {
	if p.previous.serves(names, now) && (!p.newest.serves(names, now) || now.Before(p.newest.made().Add(settling))) {
		return p.previous
	}
	return p.newest
}

// plan returns what is to take the place of the pairs of a Secret, and why; nil for nothing. All replicas come to the same.
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
