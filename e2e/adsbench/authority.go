package main

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// authorityBench measures what renewals cost the authority of a discovery in a process of its own.
type authorityBench struct {
	discovery string
	agents    int
	runs      int
	rate      int // renewals a second while they are paced
}

func runAuthority(args []string) error {
	flags := flag.NewFlagSet("ca", flag.ExitOnError)
	var b authorityBench
	flags.StringVar(&b.discovery, "discovery", "bin/discovery", "the program")
	flags.IntVar(&b.agents, "agents", 10_000, "that renew, each with a certificate and an identity of its own")
	flags.IntVar(&b.runs, "runs", 3, "medians and ranges are printed")
	flags.IntVar(&b.rate, "rate", 400, "renewals a second while they are paced; the authority admits 500")
	if err := flags.Parse(args); err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d agents, %d runs, load %s", b.agents, b.runs, load)
	rows := map[string][]float64{}
	for range b.runs {
		if err := b.run(rows); err != nil {
			return err
		}
	}
	for _, name := range rowsOfAuthority {
		all := slices.Sorted(slices.Values(rows[name]))
		fmt.Printf("%-58s %10.2f  (%.2f to %.2f, n=%d)\n", name, middle(all), all[0], all[len(all)-1], len(all))
	}
	load, _ = os.ReadFile("/proc/loadavg")
	fmt.Printf("load at the end %s", load)
	return nil
}

const (
	rowFresh   = "renewal over a new connection, discovery's CPU ms"
	rowFreshP  = "renewal over a new connection, p99 ms"
	rowFreshM  = "renewal over a new connection, p50 ms"
	rowAll     = "all agents over new connections, discovery's CPU s"
	rowKept    = "renewal over a connection that stays, discovery's CPU ms"
	rowStorm   = "storm: s until all agents have a certificate"
	rowStormT  = "storm: attempts of an agent"
	rowStormC  = "storm: discovery's CPU s"
	rowStormR  = "storm: certificates in its busiest second"
	rowStormL  = "storm: agents without a certificate at the end"
	stormLimit = 5 * time.Minute

	pacedAtOnce = 16 // renewals under way
)

var rowsOfAuthority = []string{rowFresh, rowAll, rowFreshM, rowFreshP, rowKept, rowStorm, rowStormR, rowStormT, rowStormC, rowStormL}

func (b authorityBench) run(rows map[string][]float64) error {
	dir, err := os.MkdirTemp("", "adsbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var ports [3]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	server := exec.Command(b.discovery, "serve", "--configDir", dir, "--ca", "--caDir", filepath.Join(dir, "ca"),
		"--secureGRPCAddr", ports[0], "--httpAddr", ports[1], "--grpcAddr", ports[2])
	var log bytes.Buffer
	server.Stderr = &headOf{&log}
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	c := &child{cmd: server}
	r, err := newRenewals(filepath.Join(dir, "ca"), ports[0], b.agents)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	set := func(name string, value float64) { rows[name] = append(rows[name], value) }

	before := c.cpu()
	times, err := b.paced(b.agents, func(n int) error { return r.fresh(n) })
	if err != nil {
		return err
	}
	used := c.cpu() - before
	set(rowFresh, ms(used)/float64(b.agents))
	set(rowAll, used.Seconds())
	set(rowFreshM, times[len(times)/2])
	set(rowFreshP, times[len(times)*99/100])

	time.Sleep(3 * time.Second) // the authority's allowance is whole again
	before = c.cpu()
	kept := b.agents / 5
	if _, err := b.paced(kept, r.kept); err != nil {
		return err
	}
	set(rowKept, ms(c.cpu()-before)/float64(kept))

	time.Sleep(3 * time.Second)
	before = c.cpu()
	s := r.storm(stormLimit)
	set(rowStorm, s.took.Seconds())
	set(rowStormR, float64(s.busiest))
	set(rowStormT, float64(s.attempts)/float64(b.agents))
	set(rowStormC, (c.cpu() - before).Seconds())
	set(rowStormL, float64(s.lost))
	if s.lost > 0 {
		return fmt.Errorf("%d agents have no certificate after %s: %w", s.lost, stormLimit, s.fault)
	}
	return nil
}

// paced renews n times at the rate, and returns the times that took, sorted, in ms.
func (b authorityBench) paced(n int, renew func(n int) error) ([]float64, error) {
	times, faults := make([]float64, n), make([]error, n)
	var all sync.WaitGroup
	var faulty atomic.Int64
	room := make(chan struct{}, pacedAtOnce)
	for i := range n {
		room <- struct{}{}
		time.Sleep(time.Second / time.Duration(b.rate)) // never more in a second, also after this program had to wait
		all.Go(func() {
			defer func() { <-room }()
			from := time.Now()
			if faults[i] = renew(i); faults[i] != nil {
				faulty.Add(1)
			}
			times[i] = ms(time.Since(from))
		})
	}
	all.Wait()
	if faulty.Load() > 0 {
		return nil, fmt.Errorf("%d of %d renewals failed: %w", faulty.Load(), n, cmp.Or(faults...))
	}
	slices.Sort(times)
	return times, nil
}

// headOf keeps the beginning of a log: discovery writes a line for each certificate.
type headOf struct{ to *bytes.Buffer }

func (t *headOf) Write(text []byte) (int, error) {
	if t.to.Len() < 4096 {
		t.to.WriteString(strings.ToValidUTF8(string(text), "?"))
	}
	return len(text), nil
}

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
