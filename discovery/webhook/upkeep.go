package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

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
