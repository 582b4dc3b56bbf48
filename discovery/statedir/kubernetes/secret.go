package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/statedir"
)

const (
	manager     = "pilotlight-discovery"
	ownerLabel  = "app.kubernetes.io/managed-by"
	formsFile   = "forms"
	most        = 900 << 10 // bytes; a Secret has a mebibyte
	requestTime = 10 * time.Second
	mostNamed   = 3 // objects in a line

	pause = 10 * time.Second // between two writes
)

// Secret holds the last good forms of the broken objects of one source.
type Secret struct {
	Namespace, Name string
	Source          string
	Of              statedir.Of // what the forms depend on
	Log             *slog.Logger

	once    sync.Once
	changed chan struct{} // of size 1

	mu     sync.Mutex
	read   map[string]model.Group // as they were at the start; nil until they were read
	wanted map[string]model.Group // nil until the source has synced
	faults [3]string              // of reading, of size, of writing
}

const (
	ofReading = iota
	ofSize
	ofWriting
)

// Form returns the form of an object that the Secret had at the start.
func (s *Secret) Form(source, key string) (model.Group, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	form, kept := s.read[key]
	return form, kept && source == s.Source
}

// Keep sets the forms that the Secret is to have.
func (s *Secret) Keep(source string, forms map[string]model.Group) {
	if source != s.Source {
		return
	}
	s.mu.Lock()
	s.wanted = forms
	s.mu.Unlock()
	select {
	case s.bell() <- struct{}{}:
	default:
	}
}

func (s *Secret) bell() chan struct{} {
	s.once.Do(func() { s.changed = make(chan struct{}, 1) })
	return s.changed
}

// Lines returns a line for each fault.
func (s *Secret) Lines() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range s.faults {
		if fault != "" {
			out = append(out, "Secret "+s.Namespace+"/"+s.Name+" for the last good forms of broken objects: "+fault)
		}
	}
	return out
}

func (s *Secret) fault(which int, text string) {
	s.mu.Lock()
	changed := s.faults[which] != text
	s.faults[which] = text
	s.mu.Unlock()
	if changed && text != "" {
		s.Log.Warn("Secret for the last good forms of broken objects: "+text, "secret", s.Namespace+"/"+s.Name)
	}
}

// Read reads the Secret, the first time. It returns an error where the API server does not answer: call it again before objects are
// listed. A right that is missing, and a text that cannot be read, are faults.
func (s *Secret) Read(ctx context.Context, client *kube.Client) error {
	s.mu.Lock()
	known := s.read != nil
	s.mu.Unlock()
	if known {
		return nil
	}
	stored, err := s.get(ctx, client)
	groups := map[string]model.Group{}
	switch {
	case err != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("read Secret %s/%s: %w", s.Namespace, s.Name, err)
	case err != nil:
		s.fault(ofReading, "it cannot be read, so objects that are broken now have no earlier form: "+err.Error())
	case stored != nil:
		if had, err := statedir.Groups(stored.Data[formsFile], s.Source, s.Of); err != nil {
			s.fault(ofReading, "it "+err.Error()+", so objects that are broken now have no earlier form")
		} else {
			groups = had
		}
	}
	s.mu.Lock()
	s.read = groups
	s.mu.Unlock()
	return nil
}

// get asks by a list, which needs no right but that for the Secrets that discovery follows. It returns nil for none.
func (s *Secret) get(ctx context.Context, client *kube.Client) (*corev1.Secret, error) {
	secrets, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), s.Namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var all corev1.SecretList
	if err := secrets.List(ctx, "metadata.name="+s.Name, 1, &all); err != nil || len(all.Items) == 0 {
		return nil, err
	}
	return &all.Items[0], nil
}

// Lead writes the Secret until ctx is done, or a write fails. It is a kube.Lead.
func (s *Secret) Lead(ctx context.Context, connect func() (*kube.Client, error)) error {
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		err := s.write(ctx, client)
		switch {
		case ctx.Err() != nil || errors.Is(err, kube.ErrNotLeading): // the next leader writes it, and names what is wrong
			s.fault(ofWriting, "")
			s.fault(ofSize, "")
			return nil
		case err != nil:
			s.fault(ofWriting, "it cannot be written, so replicas that start do not know them: "+err.Error())
			if !apierrors.IsForbidden(err) {
				return err
			}
		default:
			s.fault(ofWriting, "")
		}
		select {
		case <-time.After(pause): // an object may break and be mended all the time
		case <-ctx.Done():
			continue
		}
		if err != nil {
			continue
		}
		select {
		case <-s.bell():
		case <-ctx.Done():
		}
	}
}

// write makes the Secret what is wanted, unless it is that.
func (s *Secret) write(ctx context.Context, client *kube.Client) error {
	s.mu.Lock()
	wanted := s.wanted
	s.mu.Unlock()
	if wanted == nil {
		return nil
	}
	stored, err := s.get(ctx, client)
	if err != nil {
		return err
	}
	text, left, err := statedir.Text(s.Source, s.Of, wanted, most, time.Now())
	if err != nil {
		return err
	}
	s.fault(ofSize, sizeFault(left))
	if s.same(stored, text) {
		return nil
	}
	next := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Type: corev1.SecretTypeOpaque}
	if stored != nil {
		next = stored.DeepCopy()
	}
	next.APIVersion, next.Kind, next.ManagedFields = "v1", "Secret", nil
	next.Labels = map[string]string{ownerLabel: manager}
	next.Data = map[string][]byte{formsFile: text}
	secrets, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), s.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if stored == nil {
		err = secrets.Create(ctx, manager, next, nil)
	} else {
		err = secrets.Update(ctx, s.Name, manager, next, nil)
	}
	return err
}

// same reports whether the Secret has the groups of a text, whenever it was written; none are as good as no Secret.
func (s *Secret) same(stored *corev1.Secret, text []byte) bool {
	now, err := statedir.Groups(text, s.Source, s.Of)
	if stored == nil {
		return err == nil && len(now) == 0
	}
	had, unread := statedir.Groups(stored.Data[formsFile], s.Source, s.Of)
	if err != nil || unread != nil || len(had) != len(now) {
		return false
	}
	for key, group := range now {
		if before, is := had[key]; !is || !group.Same(before) {
			return false
		}
	}
	return true
}

// sizeFault says which forms do not fit; "" for none.
func sizeFault(left []string) string {
	if len(left) == 0 {
		return ""
	}
	text := fmt.Sprintf("it has no room for %d of them: %s", len(left), strings.Join(left[:min(len(left), mostNamed)], ", "))
	if len(left) > mostNamed {
		text += " and others"
	}
	return text
}
