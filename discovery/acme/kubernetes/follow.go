package kubernetes

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const (
	look     = time.Second     // how often it is asked whether the report is to be written
	sayAgain = 5 * time.Second // after a report that could not be written
)

// Run follows the Secrets, and writes this replica's report, until ctx is done.
func (s *Store) Run(ctx context.Context) error {
	kube.Keep(ctx, s.Connect, s.follow, func(err error, again time.Duration) {
		if errors.Is(err, context.Canceled) {
			return
		}
		s.tell(&s.fault, "Secrets of --acmeSecret are not followed, what is known of them is served: "+err.Error())
		s.Log.Warn("the Secrets of certificates are asked for again", "secret", s.In.Name, "again", again)
	})
	return nil
}

// tell sets a fault.
func (s *Store) tell(where *string, text string) {
	s.mu.Lock()
	changed := *where != text
	*where = text
	s.mu.Unlock()
	if changed {
		s.Changed()
	}
}

// follow is one session with the API server.
func (s *Store) follow(ctx context.Context, session *kube.Session) error {
	at, err := s.opened(session.Client)
	if err != nil {
		return err
	}
	defer session.Start(&kube.Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Object: &corev1.Secret{}, Namespace: s.In.Namespace, Labels: s.In.selector(),
	})()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for pause := (time.Time{}); ; {
		select {
		case e := <-session.Events():
			session.Apply(e, s.apply)
			s.tell(&s.fault, "")
			s.Changed()
		case now := <-ticker.C:
			if !session.Listed() || now.Before(pause) {
				continue
			}
			if err := s.say(ctx, at, now); err != nil && ctx.Err() == nil {
				s.tell(&s.unsaid, "other replicas do not hear of the gateways that are connected to this one: "+err.Error())
				pause = now.Add(sayAgain)
				continue
			}
			s.tell(&s.unsaid, "")
		case <-ctx.Done():
			return nil
		}
	}
}

// apply takes an event of the watch.
func (s *Store) apply(e kube.Event) {
	if e.List {
		var all []corev1.Secret
		for o := range kube.Objects[*corev1.Secret](e) {
			all = append(all, *o)
		}
		s.takeAll(all)
		return
	}
	for o := range kube.Objects[*corev1.Secret](e) {
		s.take(o.Name, o)
	}
	if o, is := e.Gone.(*corev1.Secret); is {
		s.gone(o)
	}
}

func (s *Store) gone(o *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !older(o, s.had(o.Name)) {
		delete(s.secrets, o.Name)
	}
	s.hear()
}

// takeAll takes a list of all Secrets.
func (s *Store) takeAll(all []corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.secrets
	s.secrets, s.listed = map[string]*held{}, true
	for i := range all {
		if had := before[all[i].Name]; had != nil {
			s.secrets[all[i].Name] = had
		}
		s.hold(&all[i])
	}
	s.hear()
}

// take takes a Secret that was read or written; nil for none.
func (s *Store) take(name string, o *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == nil {
		delete(s.secrets, name)
	} else {
		s.hold(o)
	}
	s.hear()
}

// hold reads a Secret, unless an equal or a newer one was read: a watch may be late.
func (s *Store) hold(o *corev1.Secret) {
	had := s.had(o.Name)
	if had != nil && (had.ResourceVersion == o.ResourceVersion || older(o, had)) {
		return
	}
	h := &held{Secret: o, since: time.Now()}
	if s.In.idOf(o.Name) != "" {
		h.record, h.fault = s.In.recordOf(o)
	}
	s.secrets[o.Name] = h
}

// had returns the Secret of a name that was read last, nil for none.
func (s *Store) had(name string) *corev1.Secret {
	if h := s.secrets[name]; h != nil {
		return h.Secret
	}
	return nil
}

// hear reads the reports again.
func (s *Store) hear() {
	s.heard = acme.Hear(s.heard, s.In.reportsOf(s.had(s.In.reports())), time.Now())
}

// say writes this replica's report, if that is due. Where another replica was quicker, it is due again at once.
func (s *Store) say(ctx context.Context, at secrets, now time.Time) error {
	s.mu.Lock()
	if s.says == nil {
		s.mu.Unlock()
		return nil
	}
	name := s.In.reports()
	before := s.had(name)
	next := acme.Reports(s.In.reportsOf(before), s.heard, s.Replica, *s.says, now)
	s.mu.Unlock()
	if next == nil {
		return nil
	}
	o, err := s.In.secretOf(before, name, reportsFile, next)
	if err != nil {
		return err
	}
	stored, err := at.put(ctx, o)
	if err = s.wrote(ctx, at, name, stored, err); errors.Is(err, acme.ErrTaken) {
		return nil
	}
	s.Changed()
	return err
}
