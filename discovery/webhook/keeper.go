package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Keeper keeps the certificate of the webhooks in a Secret, and writes its roots into the configurations that name the
// webhooks.
type Keeper struct {
	Connect    func() (*kube.Client, error) // called by each attempt, which closes the client's connections at its end
	Service    Service
	Secret     string   // its name, in the Service's namespace
	Hosts      []string // further names and addresses of the certificate, for webhooks with a URL
	Mutating   string   // name of the MutatingWebhookConfiguration; empty for none
	Validating string   // name of the ValidatingWebhookConfiguration; empty for none
	Log        *slog.Logger
	Now        func() time.Time // time.Now

	mu        sync.Mutex
	pairs     *pairs         // nil until there is a certificate
	failed    error          // of the last attempt
	unwritten []string       // the configurations without the roots, with the reason
	writes    map[string]int // of the roots, by kind of configuration
}

const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"

	lookAgain   = time.Minute // how often the time is checked
	writeAgain  = time.Second // the shortest time between two writes: another program may write the same field again and again
	callTimeout = 10 * time.Second
)

// TLS returns the configuration of TLS for serving webhooks. Until there is a certificate, connections fail.
func (k *Keeper) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.pairs == nil {
			return nil, errors.Join(errors.New("there is no certificate of webhooks yet"), k.failed)
		}
		return &k.pairs.served(k.names(), k.Now()).tls, nil
	}}
}

func (k *Keeper) names() []string { return slices.Concat(k.Service.names(), k.Hosts) }

// Run keeps the Secret and the configurations up to date until ctx is done. After an error, which is logged, it tries
// again.
func (k *Keeper) Run(ctx context.Context) error {
	kube.Keep(ctx, k.Connect, k.follow, func(err error, again time.Duration) {
		k.mu.Lock()
		k.failed = err
		k.mu.Unlock()
		k.Log.Error("the certificate of webhooks is not looked after", "err", err, "again", again)
	})
	return nil
}

// follow follows the Secret and the configurations until ctx is done or something fails.
func (k *Keeper) follow(ctx context.Context, s *kube.Session) error {
	u := &upkeep{Keeper: k, session: s, secret: kube.OneSecret(k.Service.Namespace, k.Secret)}
	s.Start(u.secret)
	for _, c := range []struct{ name, kind string }{{k.Mutating, mutatingKind}, {k.Validating, validatingKind}} {
		if c.name != "" {
			s.Start(&kube.Watch{Resource: resourceOf(c.kind), Kind: c.kind, Fields: "metadata.name=" + c.name})
		}
	}
	return u.run(ctx)
}

// resourceOf returns the resource of a kind of configuration.
func resourceOf(kind string) schema.GroupVersionResource {
	version := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	return version.WithResource(strings.ToLower(kind) + "s")
}

// upkeep is the state of one attempt of a Keeper.
type upkeep struct {
	*Keeper
	session         *kube.Session
	secret          *kube.Watch
	listed          bool // the list of the Secret has been received
	found           *corev1.Secret
	configurations  []*unstructured.Unstructured
	known           map[string]bool // the kinds of configurations whose list has been received
	logged, foreign string          // the last fault, and the last webhooks of others, that were logged
}

func (u *upkeep) run(ctx context.Context) error {
	due, wait := time.Now(), time.NewTimer(lookAgain)
	defer wait.Stop()
	for {
		select {
		case e := <-u.session.Events():
			u.session.Apply(e, u.take)
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
		if now := time.Now(); now.Before(due) {
			wait.Reset(due.Sub(now))
			continue
		}
		wrote, err := u.mend(ctx)
		if err != nil {
			return err
		}
		if wait.Reset(lookAgain); wrote {
			due = time.Now().Add(writeAgain)
			wait.Reset(writeAgain)
		}
	}
}

// take stores the objects of an event.
func (u *upkeep) take(e kube.Event) {
	if e.Of == u.secret {
		u.listed, u.found = true, kube.Only[*corev1.Secret](e)
		return
	}
	if u.known == nil {
		u.known = map[string]bool{}
	}
	u.known[e.Of.Kind] = true
	u.configurations = slices.DeleteFunc(u.configurations, func(c *unstructured.Unstructured) bool { return c.GetKind() == e.Of.Kind })
	u.configurations = slices.AppendSeq(u.configurations, kube.Objects[*unstructured.Unstructured](e))
}

// mend makes a new pair and writes the roots where this is due, and reports whether it wrote.
func (u *upkeep) mend(ctx context.Context) (wrote bool, err error) {
	if !u.listed {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := u.read()
	if err != nil {
		u.tell(err)
		return false, nil // nothing is overwritten; the served pair stays
	}
	now := u.Now()
	next, why, err := plan(found, u.names(), now)
	if err != nil {
		return false, err
	}
	if next != nil {
		if err := u.write(ctx, next); err != nil {
			if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || u.found != nil && apierrors.IsNotFound(err) {
				return true, nil // another replica was faster: the watch brings what it wrote
			}
			return true, fmt.Errorf("write secret %s: %w", u.at(), err)
		}
		u.Log.Info("made a certificate of webhooks", "secret", u.at(), "reason", why, "until", next.newest.leaf().NotAfter)
		found = next
	}
	u.serve(found)
	return u.spread(ctx, found.roots(), next != nil)
}

func (u *upkeep) at() string { return u.Service.Namespace + "/" + u.Secret }

// read reads the Secret; it returns nil if there is none, or an empty one with discovery's label.
func (u *upkeep) read() (*pairs, error) {
	if u.found == nil {
		return nil, nil
	}
	if u.found.Labels[ownerLabel] != owner {
		return nil, fmt.Errorf("secret %s has no label %s: %s, so it is left alone: name another one by --webhookSecret, or label it", u.at(), ownerLabel, owner)
	}
	p, err := readPairs(u.found.Data)
	if err != nil {
		return nil, fmt.Errorf("secret %s is broken: %w: delete it, and another one is made", u.at(), err)
	}
	return p, nil
}

// write creates or updates the Secret. It fails if the Secret has changed since it was read.
func (u *upkeep) write(ctx context.Context, p *pairs) error {
	secrets, err := u.session.Client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), u.Service.Namespace)
	if err != nil {
		return err
	}
	made := &corev1.Secret{}
	if u.found == nil {
		secret := &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: p.data()}
		secret.Name, secret.Namespace, secret.Labels = u.Secret, u.Service.Namespace, map[string]string{ownerLabel: owner}
		err = secrets.Create(ctx, owner, secret, made)
	} else {
		secret := u.found.DeepCopy()
		secret.Data = p.data()
		err = secrets.Update(ctx, secret.Name, owner, secret, made)
	}
	if err == nil {
		u.found = made
	}
	return err
}

// serve makes TLS use these pairs.
func (u *upkeep) serve(p *pairs) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pairs, u.failed = p, nil; u.logged != "" {
		u.Log.Info("the certificate of webhooks is looked after again")
		u.logged = ""
	}
}

// spread writes the roots into the configurations where they are missing.
func (u *upkeep) spread(ctx context.Context, roots []byte, wrote bool) (bool, error) {
	u.miss()
	foreign := ""
	for _, c := range u.configurations {
		patch, others, err := bundlePatch(c, u.Service, u.Hosts, roots)
		if err != nil {
			return wrote, err
		}
		for _, name := range others {
			foreign += " " + c.GetKind() + "/" + c.GetName() + "/" + name
		}
		if patch == nil {
			continue
		}
		wrote = true
		switch err := u.patch(ctx, c, patch); {
		case err == nil:
			u.count(c.GetKind())
			u.Log.Info("wrote the roots of webhooks", "kind", c.GetKind(), "name", c.GetName())
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err):
			u.Log.Warn("the roots of webhooks are not written: the configuration has changed", "kind", c.GetKind(), "name", c.GetName(), "err", err)
		default:
			return wrote, fmt.Errorf("write the roots of %s %s: %w", c.GetKind(), c.GetName(), err)
		}
	}
	if foreign != u.foreign && foreign != "" {
		u.Log.Warn("webhooks that do not call this service are left alone", "webhooks", foreign[1:], "service", u.Service)
	}
	u.foreign = foreign
	return wrote, nil
}

// miss stores, and logs when it is new, which configurations are not there or call another service.
func (u *upkeep) miss() {
	var now []string
	for _, of := range []struct{ kind, name string }{{mutatingKind, u.Mutating}, {validatingKind, u.Validating}} {
		if of.name != "" && u.known[of.kind] {
			now = append(now, missing(of.kind, of.name, u.configurations, u.Service, u.Hosts)...)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Equal(now, u.unwritten) && len(now) > 0 {
		u.Log.Warn("the API server calls no webhook here", "reasons", now)
	}
	u.unwritten = now
}

// count counts a write of the roots.
func (u *upkeep) count(kind string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writes == nil {
		u.writes = map[string]int{}
	}
	u.writes[kind]++
}

func (u *upkeep) patch(ctx context.Context, c *unstructured.Unstructured, patch []byte) error {
	configurations, err := u.session.Client.Resource(resourceOf(c.GetKind()), "")
	if err != nil {
		return err
	}
	return configurations.Patch(ctx, c.GetName(), owner, patch)
}

// tell logs a fault once.
func (u *upkeep) tell(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed = err; u.logged != err.Error() {
		u.logged = err.Error()
		u.Log.Error("the certificate of webhooks is not looked after", "err", err)
	}
}
