package enroll

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	random "math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Config is where a certificate comes from.
type Config struct {
	Host, Port string   // of the authority
	Identity   string   // the URI that its certificate must have, if it is not for the host
	Roots      string   // file of roots of its certificate, PEM
	Token      string   // file of a token; empty for none
	Dir        string   // of the certificate's files
	Within     string   // a directory above Dir that nobody can lead elsewhere, such as /dev/fd/64; empty for none
	Held       *os.File // the lock of Dir, of another image of this agent; nil for none. It is the Enrollment's, or closed
	Log        *slog.Logger
}

const (
	longestToken = 64 << 10
	lookAgain    = 500 * time.Millisecond // how often the token's file is read after a failure
)

// Enrollment gets and renews a certificate.
type Enrollment struct {
	config Config
	dir    *directory
	ask    func(ctx context.Context, csr, roots []byte, with *tls.Certificate, token string) (answer, error)
	roots  func(ctx context.Context, roots []byte, h *held) ([]byte, error)
	fault  atomic.Pointer[string]
}

// Open makes the directory of the certificate. What was there before, of an agent that ended, is used.
func Open(c Config) (*Enrollment, error) {
	dir, err := openDirectory(c.Dir, c.Within, c.Held)
	if c.Held != nil && (err != nil || dir.lock != c.Held) {
		c.Held.Close()
	}
	if err != nil {
		return nil, err
	}
	s := server{c.Host, c.Port, c.Identity}
	return &Enrollment{config: c, dir: dir, ask: s.ask, roots: s.roots}, nil
}

// Lock is held while no other agent may use the directory.
func (e *Enrollment) Lock() *os.File { return e.dir.lock }

// Close lets another agent use the directory.
func (e *Enrollment) Close() { e.dir.lock.Close() }

// Fault returns why the last attempt has failed; empty if it has not, and before the first one.
func (e *Enrollment) Fault() string {
	if fault := e.fault.Load(); fault != nil {
		return *fault
	}
	return ""
}

// Run gets a certificate, and renews it, until ctx is done.
func (e *Enrollment) Run(ctx context.Context) {
	pending := &pending{directory: e.dir}
	for failures := 0; ctx.Err() == nil; {
		now := time.Now()
		h, broken := e.dir.read(now)
		if broken != nil && failures == 0 {
			e.config.Log.Warn("the certificate of before cannot be used, another one is asked for", "dir", e.config.Dir, "err", broken)
		}
		if h != nil && failures == 0 {
			at := due(h.from, h.to, random.Float64())
			e.config.Log.Info("certificate held", "serial", h.pair.Leaf.SerialNumber.Text(16), "until", h.to, "renewal", at)
			if !e.follow(ctx, h, at) {
				return
			}
			h, _ = e.dir.read(time.Now())
		}
		token, _ := e.token()
		err := e.renew(ctx, h, pending)
		if err == nil {
			failures = 0
			e.fault.Store(nil)
			if err := pending.answered(); err != nil {
				e.config.Log.Warn("the key of the request is not removed", "err", err)
			}
			continue
		}
		failures++
		e.fail(ctx, h, failures, err, token)
	}
}

// fail says what failed, and waits: for the back-off, or for another token.
func (e *Enrollment) fail(ctx context.Context, h *held, failures int, err error, token []byte) {
	if ctx.Err() != nil {
		return
	}
	var u *unsigned
	if errors.As(err, &u) && h == nil {
		err = fmt.Errorf("%w; if the token is dead, agent join --token-file FILE gives the agent another one", err)
	}
	text := "no certificate: " + err.Error()
	if before := e.fault.Swap(&text); before == nil || *before != text {
		left := "none"
		if h != nil {
			left = time.Until(h.to).Round(time.Second).String()
		}
		e.config.Log.Error("certificate not renewed", "err", err, "left", left, "authority", e.config.Host)
	}
	for until := time.Now().Add(again(failures, err, random.Float64())); ; {
		wait := time.Until(until)
		if wait <= 0 || !sleep(ctx, min(wait, lookAgain)) {
			return
		}
		if now, err := e.token(); err == nil && !bytes.Equal(now, token) {
			e.config.Log.Info("the token has changed, the authority is asked again")
			return
		}
	}
}

// sleep waits, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// token reads the file of the token.
func (e *Enrollment) token() ([]byte, error) {
	if e.config.Token == "" {
		return nil, nil
	}
	text, err := safefile.Read(e.config.Token, longestToken)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	return bytes.TrimSpace(text), nil
}

// renew asks once: by the certificate, and if that does not bring another one by the token.
func (e *Enrollment) renew(ctx context.Context, h *held, p *pending) error {
	csr, err := p.request(h)
	if err != nil {
		return err
	}
	roots, err := safefile.Read(e.config.Roots, longestToken<<6)
	if err != nil {
		if h == nil {
			return fmt.Errorf("read the roots of the authority: %w", err)
		}
		roots = nil // those of the certificate are there
	}
	var faults []error
	if h != nil {
		a, err := e.ask(ctx, csr, append(append([]byte{}, roots...), h.roots...), &h.pair, "")
		if err == nil {
			return e.take(a, p, h)
		}
		faults = append(faults, err)
	}
	token, err := e.token()
	switch {
	case err != nil:
		faults = append(faults, err)
	case len(token) > 0:
		a, err := e.ask(ctx, csr, roots, nil, string(token))
		if err == nil {
			return e.take(a, p, h)
		}
		faults = append(faults, err)
	case h == nil:
		faults = append(faults, errors.New("there is no certificate that is valid, and no token: want one in --caToken"))
	}
	return errors.Join(faults...)
}

// take checks a certificate and puts it into the files.
func (e *Enrollment) take(a answer, p *pending, before *held) error {
	now := time.Now()
	clock := clockNote(a.Issued, now)
	info, err := cert.Check([]byte(a.Chain), p.text, []byte(a.Roots), now)
	if err != nil && clock != "" {
		err = fmt.Errorf("%w; %s", err, clock)
	}
	if err != nil {
		return fmt.Errorf("the authority's answer cannot be used: %w", err)
	}
	if clock != "" {
		e.config.Log.Warn("clocks differ: certificates are used, and by more than an hour they would not be", "note", clock, "authority", e.config.Host)
	}
	if before != nil && len(before.pair.Leaf.URIs) == 1 && len(info.URIs) == 1 && before.pair.Leaf.URIs[0].String() != info.URIs[0] {
		e.config.Log.Warn("the certificate has another identity", "was", before.pair.Leaf.URIs[0].String(), "identity", info.URIs[0])
	}
	if err := e.dir.put([]byte(a.Chain), p.text, []byte(a.Roots)); err != nil {
		return fmt.Errorf("the certificate is not written: %w", err)
	}
	e.config.Log.Info("certificate received", "identity", info.URIs, "serial", info.Serial, "until", info.Ends, "notes", a.Notes)
	return nil
}

// follow waits until a certificate is to be renewed: at a time, or when the authority has other roots. While a root is replaced, the new one must
// be trusted before certificates are of it. Roots come with a certificate: by its serial Envoy shows that it has taken both, and roots alone
// would need another Envoy. It reports whether ctx is not done.
func (e *Enrollment) follow(ctx context.Context, h *held, until time.Time) bool {
	said := ""
	for {
		left, life := time.Until(until), h.to.Sub(h.from)
		wait := nextLook(life, random.Float64())
		if wait >= left {
			return sleep(ctx, left)
		}
		if !sleep(ctx, wait) {
			return false
		}
		other, err := e.look(ctx, h)
		if other {
			e.config.Log.Info("the authority has other roots, a certificate is asked for", "authority", e.config.Host)
			return true
		}
		if text := fmt.Sprint(err); err != nil && text != said && ctx.Err() == nil {
			said = text
			e.config.Log.Warn("roots not asked for, those of the certificate are used", "err", err, "authority", e.config.Host)
		}
	}
}

// look reports whether the authority has other roots than those of a certificate.
func (e *Enrollment) look(ctx context.Context, h *held) (other bool, err error) {
	given, _ := safefile.Read(e.config.Roots, longestToken<<6) // those of the certificate are there
	roots, err := e.roots(ctx, append(given, h.roots...), h)
	return err == nil && roots != nil && !bytes.Equal(roots, h.roots), err
}
