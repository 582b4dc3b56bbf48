package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// renewals are agents with certificates, which ask for others by them.
type renewals struct {
	url   string
	body  []byte
	roots *x509.CertPool
	pairs []tls.Certificate
	held  []*http.Client // of the first agents, with connections that stay
}

const heldClients = 40 // an identity gets 20 certificates a second

// newRenewals waits for a discovery's authority, and makes the agents' first certificates with its key, beside it.
func newRenewals(dir, address string, agents int) (*renewals, error) {
	var files ca.Files
	var err error
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var faults [3]error
		files.Key, faults[0] = os.ReadFile(filepath.Join(dir, ca.KeyFile))
		files.Roots, faults[1] = os.ReadFile(filepath.Join(dir, ca.RootsFile))
		files.Cert, faults[2] = os.ReadFile(filepath.Join(dir, ca.CertFile))
		if err = errors.Join(faults[:]...); err == nil || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	authority, err := ca.Read(files, time.Now())
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	public, err := ca.ReadRequest(csr)
	if err != nil {
		return nil, err
	}
	r := &renewals{url: "https://" + address + "/v1/certificates", roots: authority.Pool()}
	if r.body, err = json.Marshal(map[string]string{"csr": string(csr)}); err != nil {
		return nil, err
	}
	for n := range agents {
		id := ca.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: fmt.Sprintf("agent-%d", n)}
		leaf, err := authority.Sign(public, id, 0, ca.Terms{Default: time.Hour, Most: time.Hour}, time.Now())
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(leaf.Chain[0])
		r.pairs = append(r.pairs, tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
	}
	for n := range min(heldClients, agents) {
		r.held = append(r.held, r.client(n, false))
	}
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err = r.ask(r.client(0, true)); err == nil || time.Now().After(until) {
			return r, err
		}
	}
}

func (r *renewals) client(n int, fresh bool) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: fresh, MaxConnsPerHost: 8, MaxIdleConnsPerHost: 8,
		TLSClientConfig: &tls.Config{RootCAs: r.roots, ServerName: "localhost", Certificates: r.pairs[n : n+1]},
	}}
}

func (r *renewals) fresh(n int) error {
	_, err := r.ask(r.client(n, true))
	return err
}

// kept asks by a connection that stays.
func (r *renewals) kept(n int) error {
	_, err := r.ask(r.held[n%len(r.held)])
	return err
}

// ask asks once. after is what the authority wants the agent to wait where it is busy.
func (r *renewals) ask(c *http.Client) (after time.Duration, err error) {
	answer, err := c.Post(r.url, "application/json", bytes.NewReader(r.body))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return 0, err
	case answer.StatusCode == http.StatusOK:
		return 0, nil
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, fmt.Errorf("%s: %s", answer.Status, text)
}

// stormed is how a storm went.
type stormed struct {
	took     time.Duration
	attempts int64
	busiest  int64 // certificates in one second
	lost     int
	fault    error
}

// storm has all agents ask within a second, and again when the authority says so.
func (r *renewals) storm(limit time.Duration) (out stormed) {
	const atOnce = 256 // connections of this program
	var agents sync.WaitGroup
	var attempts atomic.Int64
	room, seconds := make(chan struct{}, atOnce), make([]atomic.Int64, int(limit/time.Second)+1)
	faults := make([]error, len(r.pairs))
	began := time.Now()
	for n := range r.pairs {
		agents.Go(func() {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(len(r.pairs)))
			for {
				room <- struct{}{}
				attempts.Add(1)
				after, err := r.ask(r.client(n, true))
				<-room
				second := int(time.Since(began) / time.Second)
				if faults[n] = err; err == nil {
					seconds[min(second, len(seconds)-1)].Add(1)
					return
				}
				if after = max(after, time.Second); time.Since(began)+after > limit {
					return
				}
				time.Sleep(after)
			}
		})
	}
	agents.Wait()
	out.took, out.attempts = time.Since(began), attempts.Load()
	for _, fault := range faults {
		if fault != nil {
			out.lost, out.fault = out.lost+1, fault
		}
	}
	for i := range seconds {
		out.busiest = max(out.busiest, seconds[i].Load())
	}
	return out
}
