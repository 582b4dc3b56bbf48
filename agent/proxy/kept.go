package proxy

import (
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/agent/sds"
)

// Secrets of files for which Envoy does not ask: so many are kept, for so long. An Envoy that is started again asks for one after the other, and
// so does one whose agent was replaced. Their files may be broken by now.
const (
	keptUnasked = 10 * time.Minute
	mostUnasked = 1000
)

// unasked has until when a secret is kept for which Envoy does not ask.
type unasked map[string]time.Time

// keep adds to the secrets that Envoy asks for, by sorted names, the last ones that are kept without that.
func (u unasked) keep(secrets, last sds.Secrets, names []string, now time.Time) {
	asked := func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	}
	for name := range u {
		if _, had := last[name]; asked(name) || !had {
			delete(u, name)
		}
	}
	for name, secret := range last {
		if asked(name) {
			continue
		}
		if _, known := u[name]; !known && len(u) < mostUnasked {
			u[name] = now.Add(keptUnasked)
		}
		if now.Before(u[name]) {
			secrets[name] = secret
		}
	}
}
