package kubernetes

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Max is how many Secrets are read. Those beyond it are reported.
const Max = 1000

// Source sends the wanted Secrets. It implements secret.Source.
type Source struct {
	connect func() (*kube.Client, error)

	mu     sync.Mutex
	wanted []secret.Wanted
	asked  bool                   // Want was called
	known  map[secret.Name]string // faults of the Secrets that were read, "" for none
	good   map[secret.Name]bool   // Secrets that have been good, and are served

	changed chan struct{} // gets a value when Want has set other ones

	// OnLearned, if not nil, is called when the result of Known has changed. It must return at once.
	OnLearned func()
}

// New returns a Source that wants nothing yet.
func New(connect func() (*kube.Client, error)) *Source {
	return &Source{
		connect: connect, known: map[secret.Name]string{}, good: map[secret.Name]bool{},
		changed: make(chan struct{}, 1),
	}
}

// Want sets the Secrets to read from now on. Before the first call the Source has not synced. Any goroutine may call
// it.
func (s *Source) Want(all []secret.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked && slices.EqualFunc(all, s.wanted, secret.Wanted.Same) {
		return
	}
	s.wanted, s.asked = slices.Clone(all), true
	wake(s.changed)
}

// Known returns the faults of the Secrets that were read, by their names: "" for one that is served.
func (s *Source) Known() map[secret.Name]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

func wake(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// want returns the wanted Secrets, by name, those beyond Max, and whether Want was called.
func (s *Source) want() (out map[secret.Name]secret.Wanted, beyond []secret.Wanted, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out = map[secret.Name]secret.Wanted{}
	for _, w := range s.wanted {
		if _, twice := out[w.Object]; !twice && len(out) == Max {
			beyond = append(beyond, w)
			continue
		}
		out[w.Object] = w
	}
	maps.DeleteFunc(s.known, func(n secret.Name, _ string) bool { _, still := out[n]; return !still })
	maps.DeleteFunc(s.good, func(n secret.Name, _ bool) bool { _, still := out[n]; return !still })
	return out, beyond, s.asked
}

// learn records the fault of a Secret, "" for none. A Secret that was good once is still served.
func (s *Source) learn(name secret.Name, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault == "" {
		s.good[name] = true
	} else if s.good[name] {
		fault = ""
	}
	if was, had := s.known[name]; !had || was != fault {
		s.known[name] = fault
		if s.OnLearned != nil {
			s.OnLearned()
		}
	}
}

// Run follows the Secrets until ctx is done, or the API server cannot be reached.
func (s *Source) Run(ctx context.Context, updates chan<- secret.Update) error {
	return kube.Run(ctx, s.connect, func(ctx context.Context, session *kube.Session) error {
		wake(s.changed)
		newRun(s, session).tell(ctx, updates)
		return nil
	})
}

// follow is a watch of one Secret.
type follow struct {
	watch *kube.Watch
	stop  func()
}

// run is one Run.
type run struct {
	*Source
	session *kube.Session

	asked   bool
	wanted  map[secret.Name]secret.Wanted
	follows map[secret.Name]follow
	of      map[*kube.Watch]secret.Name
	last    map[secret.Name]*corev1.Secret
	untold  map[string]secret.Group
}

func newRun(s *Source, session *kube.Session) *run {
	return &run{
		Source: s, session: session, wanted: map[secret.Name]secret.Wanted{}, follows: map[secret.Name]follow{}, of: map[*kube.Watch]secret.Name{},
		last: map[secret.Name]*corev1.Secret{}, untold: map[string]secret.Group{},
	}
}

func key(name secret.Name) string { return "Secret/" + name.String() }

// tell sends changes until ctx is done: the first time when every wanted Secret was read.
func (r *run) tell(ctx context.Context, updates chan<- secret.Update) {
	kube.Outbox[secret.Group, secret.Update]{
		Apply: r.apply, Changes: r.changes, Wake: r.changed, Woken: r.reconcile, Ready: func() bool { return r.asked },
		Update: func(changed map[string]secret.Group) secret.Update {
			return secret.Update{Groups: changed, Synced: true}
		},
	}.Send(ctx, r.session, updates)
}

// changes returns the groups that changed since the last call.
func (r *run) changes() map[string]secret.Group {
	out := r.untold
	r.untold = map[string]secret.Group{}
	return out
}

// reconcile starts and stops watches to match the wanted Secrets.
func (r *run) reconcile() {
	wanted, beyond, asked := r.want()
	r.asked = asked
	for name, f := range r.follows {
		if _, still := wanted[name]; still {
			continue
		}
		f.stop()
		delete(r.follows, name)
		delete(r.of, f.watch)
		delete(r.last, name)
		r.untold[key(name)] = secret.Group{}
	}
	before := r.wanted
	r.wanted = wanted
	names := slices.Collect(maps.Keys(wanted))
	sort.Slice(names, func(i, j int) bool {
		return slices.Compare([]string{names[i].Namespace, names[i].Name}, []string{names[j].Namespace, names[j].Name}) < 0
	})
	for _, name := range names {
		if _, follows := r.follows[name]; follows {
			if !before[name].Same(wanted[name]) {
				r.judge(name)
			}
			continue
		}
		w := kube.OneSecret(name.Namespace, name.Name)
		w.Strip, w.Optional = strip, true
		r.of[w] = name
		r.follows[name] = follow{w, r.session.Start(w)}
	}
	for _, w := range beyond {
		r.untold[key(w.Object)] = secret.Group{Faults: []string{fmt.Sprintf("is one Secret more than %d, and is not read", Max)}}
		r.learn(w.Object, fmt.Sprintf("is one more than %d, and is not read", Max))
	}
}

// strip removes the fields that are not read. A Secret that was applied holds its text a second time.
func strip(o any) {
	if s, ok := o.(*corev1.Secret); ok {
		s.ManagedFields, s.Labels = nil, nil
		maps.DeleteFunc(s.Annotations, func(key, _ string) bool { return key != namespacesAnnotation })
	}
}

func (r *run) apply(e kube.Event) {
	name := r.of[e.Of]
	if e.Refused != nil {
		r.fault(name, fmt.Sprintf("cannot be read: %v", e.Refused))
		return
	}
	r.last[name] = nil
	for s := range kube.Objects[*corev1.Secret](e) {
		if s.Name == name.Name {
			r.last[name] = s
		}
	}
	r.judge(name)
}

// judge reads a Secret as it is now.
func (r *run) judge(name secret.Name) {
	o := r.last[name]
	if o == nil {
		r.fault(name, "is not there")
		return
	}
	secrets, err := read(o, r.wanted[name])
	if err != nil {
		r.fault(name, err.Error())
		return
	}
	r.untold[key(name)] = secret.Group{Secrets: secrets}
	r.learn(name, "")
}

func (r *run) fault(name secret.Name, text string) {
	r.untold[key(name)] = secret.Group{Faults: []string{text}}
	r.learn(name, text)
}

// rootsSuffix ends the name of roots that are beside a certificate.
const rootsSuffix = "-cacert"

// namespacesAnnotation of a Secret are the further namespaces whose DestinationRules may use its key, as words.
const namespacesAnnotation = "pilotlight.io/destination-rule-namespaces"

// read returns the content of a Secret, under the wanted names. The error does not show any of the content.
func read(o *corev1.Secret, w secret.Wanted) (map[secret.Name]secret.Secret, error) {
	first := func(keys ...string) (value []byte) {
		for _, key := range keys {
			if value = o.Data[key]; len(value) > 0 {
				break
			}
		}
		return value
	}
	certificate, key, roots := first(corev1.TLSCertKey, "cert"), first(corev1.TLSPrivateKeyKey, "key"), first("ca.crt", "cacert")
	out := map[secret.Name]secret.Secret{}
	if len(roots) > 0 {
		if !x509.NewCertPool().AppendCertsFromPEM(roots) {
			return nil, errors.New("has no certificate in ca.crt, want PEM")
		}
		s := secret.Secret{Roots: roots}
		out[w.As], out[secret.Name{Namespace: w.As.Namespace, Name: w.As.Name + rootsSuffix}] = s, s
	}
	switch {
	case len(certificate)+len(key) > 0:
		pair, err := secret.Pair(certificate, key, w.Accounts)
		if err != nil {
			return nil, fmt.Errorf("cannot be used, of tls.crt and tls.key: %w", err)
		}
		pair.Namespaces = strings.Fields(o.Annotations[namespacesAnnotation])
		out[w.As] = pair
	case w.Pair:
		return nil, errors.New("has no tls.crt and tls.key")
	case len(roots) == 0:
		return nil, errors.New("has neither tls.crt with tls.key nor ca.crt")
	}
	return out, nil
}
