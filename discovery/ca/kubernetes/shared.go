package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const writeTime = 10 * time.Second

// Shared is an authority that replicas share by a Secret with Istio's file names. The replica that creates the Secret makes the root;
// one that was there is used as it is, and never changed.
type Shared struct {
	Connect         func() (*kube.Client, error)
	Namespace, Name string
	Known           func(*ca.Authority) // is called once, when the authority is known
	Log             *slog.Logger
	Now             func() time.Time

	mu    sync.Mutex
	known known
	fault string
}

// Authority returns the authority; nil until it is known.
func (s *Shared) Authority() *ca.Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.authority
}

// Fault returns what is wrong with the Secret; "" if nothing is.
func (s *Shared) Fault() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

func (s *Shared) called() string { return "Secret " + s.Namespace + "/" + s.Name }

// Run follows the Secret until ctx is done.
func (s *Shared) Run(ctx context.Context) error {
	kube.Keep(ctx, s.Connect, s.follow, func(err error, again time.Duration) {
		s.tell(fmt.Errorf("cannot be read or made: %w", err))
		s.Log.Warn("the Secret of the authority is asked for again", "secret", s.Name, "again", again)
	})
	return nil
}

// follow follows the Secret, and the roots beside it, until ctx is done or a request fails.
func (s *Shared) follow(ctx context.Context, session *kube.Session) error {
	secrets, roots := kube.OneSecret(s.Namespace, s.Name), watchRoots(s.Namespace)
	defer session.Start(secrets)()
	defer session.Start(roots)()
	var found *corev1.Secret
	trusted := false
	for {
		select {
		case e := <-session.Events():
			session.Apply(e, func(e kube.Event) {
				if e.Of == secrets {
					found = kube.Only[*corev1.Secret](e)
				} else {
					o := kube.Only[*corev1.ConfigMap](e)
					trusted = o != nil && o.Data[ca.RootsFile] != ""
				}
			})
		case <-ctx.Done():
			return nil
		}
		if session.Listed() {
			if err := s.take(ctx, session.Client, found, trusted); err != nil {
				return err
			}
		}
	}
}

// take uses what was found. Its error is that of a request.
func (s *Shared) take(ctx context.Context, client *kube.Client, found *corev1.Secret, trusted bool) error {
	s.mu.Lock()
	before := s.known
	s.mu.Unlock()
	next, mustMake, err := decide(before, found, trusted, s.Now())
	s.tell(err)
	if mustMake {
		return s.create(ctx, client)
	}
	if before.authority == nil && next.authority != nil {
		s.mu.Lock()
		s.known = next
		s.mu.Unlock()
		s.Log.Info("authority read", "secret", s.called(), "issuer", next.authority.Name(), "until", next.authority.Ends())
		s.Known(next.authority)
	}
	return nil
}

// create makes a root and the Secret. It is used when it is read: another replica may have been first.
func (s *Shared) create(ctx context.Context, client *kube.Client) error {
	files, err := ca.NewRoot(ca.RootName, ca.RootLife, s.Now())
	if err != nil {
		return err
	}
	secrets, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), s.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	switch err := secrets.Create(ctx, manager, secretOf(s.Namespace, s.Name, files), nil); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return err
	}
	s.Log.Warn("a new root was made, since there was no authority: no certificate of another root is trusted", "secret", s.called())
	return nil
}

// tell logs a fault, once.
func (s *Shared) tell(err error) {
	text := ""
	if err != nil {
		text = s.called() + ": " + err.Error()
	}
	s.mu.Lock()
	before := s.fault
	s.fault = text
	s.mu.Unlock()
	if text != "" && text != before && !errors.Is(err, context.Canceled) {
		s.Log.Error("the authority's Secret cannot be used", "err", text)
	}
}
