package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const (
	look      = time.Second // how often it is asked whether something is due
	readAgain = 30 * time.Second
)

// Shared is an authority that replicas share by a Secret with Istio's file names. The replica that creates the Secret
// makes the root; one that was there is used as it is, and changed by steps of a rotation alone.
type Shared struct {
	Connect func() (*kube.Client, error)
	In      At
	Replica string // the name of this one
	Terms   ca.Terms
	Overlap time.Duration                       // see ca.Observed
	Issued  func(roots []byte) (live, with int) // of certificates that live
	Changed func()                              // is called when the authority is known, and after each step of a rotation
	Log     *slog.Logger
	Now     func() time.Time

	open func(*kube.Client) (secrets, error) // nil for those of the API server

	mu    sync.Mutex
	known known
	heard time.Time // when the Secret was asked for that was read last
	fault string
}

// State returns the authority, with the rotation of its root; zero until it is known.
func (s *Shared) State() ca.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.State
}

// Signing returns the authority that signs now; nil until it is known. A replica that has not read the Secret for long
// does not know whether a root is being replaced: then its certificates end no later than one that it could have signed
// before. So each that lives when the new root begins to sign was signed after the Secret said so, however long this
// replica was cut off.
func (s *Shared) Signing() *ca.Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.Authority == nil {
		return nil
	}
	return s.known.Authority.Until(s.until())
}

func (s *Shared) until() time.Time {
	most := max(s.Terms.Most, s.known.Rotation.Most)
	return s.heard.Round(0).Add(s.Terms.Most + ca.Late(most)/2)
}

// Lines says what is wrong with the Secret, and how far a rotation is.
func (s *Shared) Lines() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.known.Rotation; r.Phase != "" {
		out = append(out, fmt.Sprintf("the root of %s is being rotated, %s: %s", s.In, r.Phase, r.Waits))
	}
	if s.fault != "" {
		out = append(out, s.fault)
	}
	if late := s.Now().Sub(s.heard); s.known.Authority != nil && late > ca.Late(s.Terms.Most)/2 {
		out = append(out, fmt.Sprintf("%s was not read for %s: certificates end at %s at the latest", s.In, late.Round(time.Second), s.until().UTC().Format(time.RFC3339)))
	}
	return out
}

// Run follows the Secret until ctx is done.
func (s *Shared) Run(ctx context.Context) error {
	kube.Keep(ctx, s.Connect, s.follow, func(err error, again time.Duration) {
		s.tell(fmt.Errorf("cannot be read or made: %w", err))
		s.Log.Warn("the Secret of the authority is asked for again", "secret", s.In.Name, "again", again)
	})
	return nil
}

// seen is what one session has found.
type seen struct {
	secret  *corev1.Secret
	trusted bool // the ConfigMap beside it has roots
	asked   time.Time
}

// follow follows the Secret, and the roots beside it, until ctx is done or a request fails.
func (s *Shared) follow(ctx context.Context, session *kube.Session) error {
	at, err := s.opened(session.Client)
	if err != nil {
		return err
	}
	watched, roots := kube.OneSecret(s.In.Namespace, s.In.Name), watchRoots(s.In.Namespace)
	defer session.Start(watched)()
	defer session.Start(roots)()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for found := (seen{}); ; {
		ticked := false
		select {
		case e := <-session.Events():
			session.Apply(e, func(e kube.Event) {
				if e.Of == watched {
					if o := kube.Only[*corev1.Secret](e); !older(o, found.secret) {
						found.secret = o
					}
				} else {
					o := kube.Only[*corev1.ConfigMap](e)
					found.trusted = o != nil && o.Data[ca.RootsFile] != ""
				}
			})
		case <-ticker.C:
			ticked = true
		case <-ctx.Done():
			return nil
		}
		if !session.Listed() {
			continue
		}
		if err := s.turn(ctx, at, &found, ticked); err != nil {
			return err
		}
	}
}

// older reports whether an object that is followed is an older one than that which was read: a watch may be late.
func older(followed, read *corev1.Secret) bool {
	if followed == nil || read == nil {
		return false
	}
	a, err := strconv.ParseUint(followed.ResourceVersion, 10, 64)
	b, also := strconv.ParseUint(read.ResourceVersion, 10, 64)
	return err == nil && also == nil && a < b
}

// turn uses what was found, and does what is due. Its error is that of a request.
func (s *Shared) turn(ctx context.Context, at secrets, found *seen, ticked bool) error {
	now := s.Now()
	if again := min(readAgain, ca.Late(s.Terms.Most)/16); found.asked.IsZero() || ticked && (now.Sub(found.asked) >= again || now.Before(found.asked)) {
		secret, err := read(ctx, at)
		if err != nil {
			return err
		}
		found.secret, found.asked = secret, now
	}
	if err := s.take(ctx, at, *found); err != nil || !ticked {
		return err
	}
	if found.secret == nil {
		found.asked = time.Time{} // it was made, or is missed
		return nil
	}
	state := s.State()
	if state.Rotation.Phase == "" {
		return nil
	}
	o := ca.Observed{Most: s.Terms.Most, Overlap: s.Overlap}
	o.Live, o.Both = s.Issued(state.Authority.Roots())
	next, err := advance(found.secret.Data, s.Replica, o, s.Now())
	if err != nil || next == nil {
		return nil // take has logged the fault
	}
	secret := found.secret.DeepCopy()
	secret.Data = next
	stored, err := write(ctx, at, secret)
	switch {
	case apierrors.IsConflict(err): // another replica, or a person, was first: the watch says what
		found.asked = time.Time{}
		return nil
	case err != nil:
		return fmt.Errorf("rotate the root: %w", err)
	}
	found.secret, found.asked = stored, now
	return s.take(ctx, at, *found)
}

// take uses what was found. Its error is that of a request.
func (s *Shared) take(ctx context.Context, at secrets, found seen) error {
	s.mu.Lock()
	before := s.known
	s.mu.Unlock()
	next, mustMake, err := decide(before, found.secret, found.trusted, s.Now())
	s.tell(err)
	if mustMake {
		return s.create(ctx, at)
	}
	s.mu.Lock()
	s.known = next
	if found.asked.After(s.heard) || found.asked.Before(s.heard) && s.Now().Before(s.heard) { // a clock may be put back
		s.heard = found.asked
	}
	s.mu.Unlock()
	switch {
	case next.Authority == nil || before.Authority != nil && same(before.State, next.State):
		return nil
	case before.Authority == nil:
		s.Log.Info("authority read", "secret", s.In.String(), "issuer", next.Authority.Name(), "until", next.Authority.Ends(), "rotation", next.Rotation.Phase)
	default:
		s.Log.Warn("the root is rotated", "secret", s.In.String(), "was", before.Rotation.Phase, "phase", next.Rotation.Phase,
			"issuer", next.Authority.Name(), "waits", next.Rotation.Waits)
	}
	s.Changed()
	return nil
}

// same reports whether two states sign, and trust, the same.
func same(a, b ca.State) bool {
	return a.Rotation.Phase == b.Rotation.Phase && a.Rotation.New == b.Rotation.New && a.Authority.Root() == b.Authority.Root() &&
		string(a.Authority.Roots()) == string(b.Authority.Roots())
}

// create makes a root and the Secret. It is used when it is read: another replica may have been first.
func (s *Shared) create(ctx context.Context, at secrets) error {
	files, err := ca.NewRoot(ca.RootName, ca.RootLife, s.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	switch err := at.create(ctx, secretOf(s.In.Namespace, s.In.Name, files)); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return err
	}
	s.Log.Warn("a new root was made, since there was no authority: no certificate of another root is trusted", "secret", s.In.String())
	return nil
}

// tell logs a fault, once.
func (s *Shared) tell(err error) {
	text := ""
	if err != nil {
		text = s.In.String() + ": " + err.Error()
	}
	s.mu.Lock()
	before := s.fault
	s.fault = text
	s.mu.Unlock()
	if text != "" && text != before && !errors.Is(err, context.Canceled) {
		s.Log.Error("the authority's Secret cannot be used", "err", text)
	}
}
