package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fulfiller is an issuer that gives what is ordered, once it has had an answer to its question. It has no connections, so that a test may own the time.
type fulfiller struct {
	t      *testing.T
	answer func(token string) string // what gateways answer, wherever one asks

	mu     sync.Mutex
	before func(path string) // see whenAsked
	orders []time.Time
	proven map[string]bool
	chains map[string][]byte
	failed int // validations
}

const certificateLife = 3 * time.Hour

func newFulfiller(t *testing.T) *fulfiller {
	return &fulfiller{t: t, proven: map[string]bool{}, chains: map[string][]byte{}}
}

// whenAsked has a function called before each further request is answered.
func (f *fulfiller) whenAsked(do func(path string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = do
}

func (f *fulfiller) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.orders)
}

// RoundTrip implements http.RoundTripper.
func (f *fulfiller) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before != nil {
		before(strings.Split(r.URL.Path, "/")[1])
	}
	w := httptest.NewRecorder()
	w.Header().Set("Replay-Nonce", "n")
	var body struct{ Payload string }
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body) // requests for a nonce have none
	}
	payload, _ := base64.RawURLEncoding.DecodeString(body.Payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serve(w, strings.Split(strings.Trim(r.URL.Path, "/"), "/"), payload)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

func (f *fulfiller) serve(w *httptest.ResponseRecorder, path []string, payload []byte) {
	const at = "https://issuer.test/"
	n := path[len(path)-1]
	order := func(code int) {
		status, cert := "pending", ""
		if f.proven[n] {
			status = "ready"
		}
		if f.chains[n] != nil {
			status, cert = "valid", `, "certificate": "`+at+"cert/"+n+`"`
		}
		w.Header().Set("Location", at+"order/"+n)
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"status": %q, "authorizations": ["%sauthz/%s"], "finalize": "%sfinalize/%s"%s}`, status, at, n, at, n, cert)
	}
	challenge := func(status string) string {
		return fmt.Sprintf(`{"type": "http-01", "url": "%schal/%s", "token": "token%s", "status": %q}`, at, n, n, status)
	}
	status := map[bool]string{false: "pending", true: "valid"}[f.proven[n]]
	switch path[0] {
	case "dir":
		fmt.Fprintf(w, `{"newAccount": "%saccount", "newOrder": "%snew", "newNonce": "%snonce"}`, at, at, at)
	case "account":
		w.Header().Set("Location", at+"account/1")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status": "valid"}`)
	case "new":
		f.orders = append(f.orders, time.Now())
		n = fmt.Sprint(len(f.orders))
		order(http.StatusCreated)
	case "order":
		order(http.StatusOK)
	case "authz":
		fmt.Fprintf(w, `{"status": %q, "identifier": {"type": "dns", "value": "a.test"}, "challenges": [%s]}`, status, challenge(status))
	case "chal":
		if f.proven[n] { // nothing is asked again, as by Let's Encrypt
			fmt.Fprint(w, challenge("valid"))
			return
		}
		if f.proven[n] = strings.HasPrefix(f.answer("token"+n), "token"+n+"."); !f.proven[n] {
			f.failed++
		}
		fmt.Fprint(w, challenge("processing"))
	case "finalize":
		f.chains[n] = f.sign(payload)
		order(http.StatusOK)
	case "cert":
		_, _ = w.Write(f.chains[n])
	}
}

// sign returns the certificate of a request, which signs itself.
func (f *fulfiller) sign(payload []byte) []byte {
	var said struct{ CSR string }
	check(f.t, json.Unmarshal(payload, &said))
	der, err := base64.RawURLEncoding.DecodeString(said.CSR)
	check(f.t, err)
	request, err := x509.ParseCertificateRequest(der)
	check(f.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(f.t, err)
	made := &x509.Certificate{SerialNumber: big.NewInt(int64(len(f.orders))), NotBefore: time.Now(), NotAfter: time.Now().Add(certificateLife), DNSNames: request.DNSNames}
	issuer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}}
	if der, err = x509.CreateCertificate(rand.Reader, made, issuer, request.PublicKey, key); err != nil {
		f.t.Error(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
