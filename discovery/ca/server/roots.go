package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// RootsPath is that of the roots alone, for a caller with a certificate of this authority. The query have is the SHA-256 of the roots
// that the caller trusts, as hexadecimal digits.
const RootsPath = "/v1/roots"

// serveRoots answers with the roots, or with 304 where the caller has them: it is then known that its certificate came to both while a root is
// replaced.
func (d *Desk) serveRoots(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		fail(w, http.StatusMethodNotAllowed, "want GET")
		return
	}
	authority := d.Authority()
	if authority == nil {
		tell(w, &Busy{"not-ready", unready, errors.New("the authority is not known yet")})
		return
	}
	own := -1
	if r.TLS != nil {
		own = slices.IndexFunc(r.TLS.VerifiedChains, authority.Trusts)
	}
	if own < 0 {
		fail(w, http.StatusUnauthorized, "refused")
		return
	}
	roots := authority.Roots()
	sum := sha256.Sum256(roots)
	if !strings.EqualFold(r.URL.Query().Get("have"), hex.EncodeToString(sum[:])) {
		write(w, http.StatusOK, struct {
			Roots string `json:"roots"`
		}{string(roots)})
		return
	}
	d.mu.Lock()
	d.census.has(r.TLS.VerifiedChains[own][0], roots, d.Now())
	d.mu.Unlock()
	w.WriteHeader(http.StatusNotModified)
}
