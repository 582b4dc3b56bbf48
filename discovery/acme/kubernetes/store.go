package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Store keeps records and accounts in Secrets. It implements client.Replicas.
type Store struct {
	Connect func() (*kube.Client, error)
	In      At
	Replica string      // the name of this one
	Holds   func() bool // whether this replica holds the Lease now, by the clock
	Changed func()      // is called when there is something new; it must return at once
	Log     *slog.Logger

	open func(*kube.Client) (secrets, error) // nil for those of the API server

	mu      sync.Mutex
	listed  bool
	secrets map[string]*held // as they were read last, by name
	heard   map[string]acme.Heard
	says    *acme.Report // nil for nothing yet
	term    *term        // nil while this replica does not lead
	fault   string       // of following
	unsaid  string       // why the report is not written
}

// held is a Secret as it was read, and what it means.
type held struct {
	*corev1.Secret
	record acme.Record // of one of a set
	fault  error       // of reading that
	since  time.Time   // when it was seen first in this form
}

// term is the time for which this replica leads.
type term struct {
	context.Context
	secrets
}

// Name returns that of this replica.
func (s *Store) Name() string { return s.Replica }

// Load returns what is known of the records.
func (s *Store) Load() (records map[string]acme.Record, broken map[string]acme.Broken, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range []string{s.fault, s.unsaid} {
		if text != "" && err == nil {
			err = errors.New(text)
		}
	}
	if !s.listed {
		return nil, nil, err
	}
	records, broken = map[string]acme.Record{}, map[string]acme.Broken{}
	for name, o := range s.secrets {
		switch id := s.In.idOf(name); {
		case id == "", o.Labels[ofLabel] != s.In.Name: // other replicas do not see it: it is written again
		case o.fault != nil:
			broken[id] = acme.Broken{Err: o.fault, At: o.since}
		default:
			records[o.record.Set().Key()] = o.record
		}
	}
	return records, broken, err
}

// Heard returns the reports of replicas.
func (s *Store) Heard() map[string]acme.Heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.heard)
}

// Say has the report of this replica written.
func (s *Store) Say(r acme.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says = &r
}

// Term returns the context of the term in which this replica leads. It asks the clock too: a process that was frozen does not know yet that its term is over.
func (s *Store) Term(context.Context) (context.Context, error) {
	t, err := s.leads()
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (s *Store) leads() (*term, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.term.Err() != nil || !s.Holds() {
		return nil, acme.ErrFollows
	}
	return s.term, nil
}

// Lead has this replica write until ctx is done. It is a kube.Lead.
func (s *Store) Lead(ctx context.Context, connect func() (*kube.Client, error)) error {
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	at, err := s.opened(client)
	if err != nil {
		return err
	}
	return s.lead(ctx, at)
}

// lead begins with all that is stored: a watch may be late, and the last leader may have written something just before its end.
func (s *Store) lead(ctx context.Context, at secrets) error {
	all, err := at.all(ctx)
	if err != nil {
		return fmt.Errorf("read the Secrets of --acmeSecret: %w", err)
	}
	s.takeAll(all)
	s.set(&term{ctx, at})
	<-ctx.Done()
	s.set(nil)
	return nil
}

func (s *Store) set(t *term) {
	s.mu.Lock()
	s.term = t
	s.mu.Unlock()
	s.Changed()
}

// Save writes the record of a set in the place of the one that was read last.
func (s *Store) Save(ctx context.Context, r acme.Record) error {
	return s.write(ctx, s.In.nameOf(r.Set()), setFile, r)
}

// write writes a file of a Secret, or fails with acme.ErrTaken where the Secret is not the one that is known.
func (s *Store) write(ctx context.Context, name, file string, content any) error {
	t, err := s.leads()
	if err != nil {
		return err
	}
	s.mu.Lock()
	o, err := s.In.secretOf(s.had(name), name, file, content)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	stored, err := t.put(ctx, o)
	return s.wrote(ctx, t, name, stored, err)
}

// wrote takes the outcome of a write.
func (s *Store) wrote(ctx context.Context, at secrets, name string, stored *corev1.Secret, err error) error {
	switch {
	case err == nil:
		s.take(name, stored)
		return nil
	case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
		return fmt.Errorf("write %s: %w", s.In.told(name), err)
	}
	found, again := at.get(ctx, name)
	if again != nil {
		return fmt.Errorf("read %s: %w", s.In.told(name), again)
	}
	s.take(name, found)
	return fmt.Errorf("write %s: %w", s.In.told(name), acme.ErrTaken)
}

// Forget removes the Secret of a set.
func (s *Store) Forget(ctx context.Context, r acme.Record) error {
	t, err := s.leads()
	if err != nil {
		return err
	}
	name := s.In.nameOf(r.Set())
	if err := t.remove(ctx, name); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", s.In.told(name), err)
	}
	s.take(name, nil)
	return nil
}

// Account returns the key of an account, which is stored before the issuer hears of it.
func (s *Store) Account(ctx context.Context, issuer, url string, made func() ([]byte, error)) ([]byte, error) {
	t, err := s.leads()
	if err != nil {
		return nil, err
	}
	found, err := t.get(ctx, s.In.Name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.In.told(s.In.Name), err)
	}
	s.take(s.In.Name, found)
	file := accountFile(issuer, url)
	if found != nil && found.Data[file] != nil {
		var kept account
		err := s.In.read(found, file, &kept)
		return []byte(kept.Key), err
	}
	text, err := made()
	if err != nil {
		return nil, err
	}
	return text, s.write(ctx, s.In.Name, file, account{url, string(text)})
}

// Close has nothing to end: Lead does.
func (s *Store) Close() {}

func (s *Store) opened(client *kube.Client) (secrets, error) {
	if s.open != nil {
		return s.open(client)
	}
	return open(client, s.In)
}
