package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Path is that of requests over HTTP.
const Path = "/v1/certificates"

const (
	maxBody  = 64 << 10
	bodyTime = 10 * time.Second
)

// body is the body of a request.
type body struct {
	CSR string `json:"csr"`
	TTL string `json:"ttl"`
}

// answer is the body of an answer.
type answer struct {
	Identity  string    `json:"identity"`
	Chain     string    `json:"chain"`
	Roots     string    `json:"roots"`
	Issued    time.Time `json:"issued"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	Notes     []string  `json:"notes,omitempty"`
}

type agentKey struct{}

// OfAgent returns the context of requests on a connection that an agent opened: see package binding.
func OfAgent(ctx context.Context) context.Context { return context.WithValue(ctx, agentKey{}, true) }

// ServeHTTP answers POST /v1/certificates and GET /v1/roots over TLS.
func (d *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == RootsPath:
		d.serveRoots(w, r)
		return
	case r.URL.Path != Path:
		fail(w, http.StatusNotFound, "this port has POST "+Path+", GET "+RootsPath+", and gRPC")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, "want POST")
		return
	case r.TLS == nil:
		fail(w, http.StatusForbidden, "want TLS")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // else the limits of the server hold
	csr, ttl, code, err := read(w, r)
	if err != nil {
		d.metrics.refused.WithLabelValues("request").Inc()
		fail(w, code, err.Error())
		return
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	given := r.Header.Get("Authorization")
	token, bearer := strings.CutPrefix(given+" ", "Bearer ") // an empty one is none
	if given != "" && !bearer {
		d.metrics.refused.WithLabelValues("request").Inc()
		fail(w, http.StatusUnauthorized, "the header Authorization does not begin with Bearer, want Authorization: Bearer TOKEN")
		return
	}
	issued, err := d.Issue(r.Context(), Caller{
		Chains: r.TLS.VerifiedChains, Token: strings.TrimSpace(token), Address: from.Addr().Unmap(), Agent: r.Context().Value(agentKey{}) != nil,
	}, csr, ttl)
	if err != nil {
		writeError(w, err)
		return
	}
	write(w, http.StatusOK, answer{
		Identity: issued.Identity.String(), Chain: string(bytes.Join(issued.Chain, nil)), Roots: string(issued.Roots),
		Issued: issued.At.UTC(), NotBefore: issued.NotBefore.UTC(), NotAfter: issued.NotAfter.UTC(), Notes: issued.Notes,
	})
}

// read reads the body of a request; code is the status where that fails.
func read(w http.ResponseWriter, r *http.Request) (csr []byte, ttl time.Duration, code int, err error) {
	if given := r.Header.Get("Content-Type"); given != "" {
		if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
			return nil, 0, http.StatusUnsupportedMediaType, fmt.Errorf("the body is %q, want application/json", given)
		}
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	var b body
	if err := decoder.Decode(&b); err != nil {
		if long := new(http.MaxBytesError); errors.As(err, &long) {
			return nil, 0, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody)
		}
		return nil, 0, http.StatusBadRequest, fmt.Errorf(`the body is not JSON {"csr": PEM, "ttl": "1h"}: %w`, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, http.StatusBadRequest, errors.New("something follows the JSON of the body")
	}
	if b.TTL != "" {
		if ttl, err = time.ParseDuration(b.TTL); err != nil || ttl <= 0 {
			return nil, 0, http.StatusBadRequest, fmt.Errorf("ttl %q, want a duration above 0s such as 1h", b.TTL)
		}
	}
	return []byte(b.CSR), ttl, 0, nil
}

// writeError answers with an error of Issue.
func writeError(w http.ResponseWriter, err error) {
	var refusal *Refusal
	var busy *Busy
	switch {
	case errors.As(err, &refusal):
		fail(w, http.StatusUnauthorized, "refused")
	case errors.As(err, &busy):
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(busy.After.Seconds()))))
		code, text := http.StatusServiceUnavailable, "not now"
		if busy.Cause == "rate" {
			code, text = http.StatusTooManyRequests, "too many requests"
		}
		fail(w, code, text)
	default:
		fail(w, http.StatusBadRequest, err.Error())
	}
}

func fail(w http.ResponseWriter, code int, text string) {
	write(w, code, struct {
		Error string `json:"error"`
	}{text})
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a caller that has gone asks again
}

// RootsPath is that of the roots alone, for a caller with a certificate of this authority. The query have is the
// SHA-256 of the roots that the caller trusts, as hexadecimal digits.
const RootsPath = "/v1/roots"

// serveRoots answers with the roots, or with 304 where the caller has them: it is then known that its certificate came
// to both while a root is replaced.
func (d *Server) serveRoots(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		fail(w, http.StatusMethodNotAllowed, "want GET")
		return
	}
	authority := d.Authority()
	if authority == nil {
		writeError(w, &Busy{"not-ready", unready, errors.New("the authority is not known yet")})
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
	d.issued.has(r.TLS.VerifiedChains[own][0], roots, d.Now())
	d.mu.Unlock()
	w.WriteHeader(http.StatusNotModified)
}
