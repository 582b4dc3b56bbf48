package ingress

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Controller is the name of this controller in an IngressClass.
const Controller = "pilotlight.io/ingress-controller"

// Credential returns the name by which proxies subscribe to the Secret of an Ingress. A Gateway that names it is
// refused: it could serve the certificate of another namespace.
func Credential(secret Name) string { return CredentialScheme + secret.String() }

// CredentialScheme is the prefix of the names that Credential returns.
const CredentialScheme = "kubernetes-ingress://"

// Options are the settings for all Ingresses.
type Options struct {
	Class       string            // the name of the class that needs no IngressClass: "pilotlight"
	Proxies     string            // namespace of the ingress proxies
	Selector    map[string]string // their labels
	HTTP, HTTPS uint32            // their ports; 80 and 443 if 0
	Domain      model.Domain      // of the hosts of Services
	AnyClass    bool              // serve those of every class of which no IngressClass exists, and of none
}

// Name names an object of a namespace.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return n.Namespace + "/" + n.Name }

func (n Name) compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Namespace, o.Namespace), cmp.Compare(n.Name, o.Name))
}

// Table holds the objects of all stores, and the groups that are made of them. Changes translates the hosts that the
// changes since its last call affect, and no others.
type Table struct {
	options Options

	ingresses map[Name][]*ingress  // a copy of each store; the first is used
	classes   map[string][]class   // likewise
	services  map[Name][]backend   // a form of each store, in the order of their names
	secrets   map[Name]string      // the faults of the Secrets that were read, "" for a valid one
	uses      map[string]*classUse // by the name of a class
	index     index
	hosts     map[string]*host
	sent      map[string]model.Group
	keys      map[string]string // of sent, by the part that they are made of
	pending   pending

	ours   map[string]map[Name]bool // the served Ingresses, by store
	wanted map[Name]int             // how many hosts have a Secret
	names  []Name                   // of wanted, in order; nil to make it again

	translated int // hosts, in all calls of Changes
}

// backend holds the ports of a Service of one store.
type backend struct {
	store string
	ports []corev1.ServicePort
}

// pending is the work of the next call of Changes.
type pending struct {
	hosts      map[string]bool // whose rules or Secrets have changed
	outputs    map[string]bool // hosts whose objects must be made again
	namespaces map[string]bool // whose Gateway of HTTP must be made again
	faults     map[Name]bool   // Ingresses whose faults may have changed
	classes    bool            // the verdicts on classes may have changed
}

func newPending() pending {
	return pending{hosts: map[string]bool{}, outputs: map[string]bool{}, namespaces: map[string]bool{}, faults: map[Name]bool{}}
}

// New returns an empty Table.
func New(o Options) *Table {
	o.HTTP, o.HTTPS = cmp.Or(o.HTTP, 80), cmp.Or(o.HTTPS, 443)
	return &Table{
		options: o, ingresses: map[Name][]*ingress{}, classes: map[string][]class{}, services: map[Name][]backend{}, secrets: map[Name]string{},
		uses: map[string]*classUse{}, index: newIndex(), hosts: map[string]*host{}, sent: map[string]model.Group{}, keys: map[string]string{}, pending: newPending(),
		ours: map[string]map[Name]bool{}, wanted: map[Name]int{},
	}
}

// SetSecrets sets the faults of the wanted Secrets that were read, "" for one that can be served.
func (t *Table) SetSecrets(secrets map[Name]string) {
	changed := func(secret Name) {
		for u := range t.index.secrets[secret] {
			t.pending.hosts[u.host] = true
		}
	}
	for name, fault := range secrets {
		if was, had := t.secrets[name]; !had || was != fault {
			changed(name)
		}
	}
	for name := range t.secrets {
		if _, still := secrets[name]; !still {
			changed(name)
		}
	}
	t.secrets = maps.Clone(secrets)
}

// Changes returns the groups that differ from those of the last call, by key. An empty group stands for one that was
// removed.
func (t *Table) Changes() map[string]model.Group {
	out := map[string]model.Group{}
	t.judgeClasses()
	t.passOwners()
	for name := range t.pending.hosts {
		t.replace(name)
	}
	for name := range t.pending.outputs {
		t.output(name, out)
	}
	for namespace := range t.pending.namespaces {
		t.plain(namespace, out)
	}
	for name := range t.pending.faults {
		t.emit("Ingress/"+name.String(), model.Group{Faults: t.texts(name)}, out)
	}
	t.pending = newPending()
	return out
}

// emit sets a group, and adds it to out if it is another one than before.
func (t *Table) emit(key string, group model.Group, out map[string]model.Group) {
	was, had := t.sent[key]
	switch {
	case group.Empty() && !had:
	case group.Empty():
		delete(t.sent, key)
		out[key] = model.Group{}
	case !had || !group.Same(was) || !slices.Equal(group.Faults, was.Faults) || group.Waits != was.Waits:
		t.sent[key], out[key] = group, group
	}
}

// All returns all groups of the last call of Changes, by key.
func (t *Table) All() map[string]model.Group { return maps.Clone(t.sent) }

// Ours returns the Ingresses of a store that are served. The map belongs to the Table, and is valid until the next
// change.
func (t *Table) Ours(store string) map[Name]bool { return t.ours[store] }

// Wanted returns the Secrets that the served Ingresses name for hosts that belong to them, at the last call of Changes.
func (t *Table) Wanted() []Name {
	if t.names == nil {
		t.names = slices.Collect(maps.Keys(t.wanted))
		sort.Slice(t.names, func(i, j int) bool { return t.names[i].compare(t.names[j]) < 0 })
	}
	return t.names
}

// index finds what a change affects. It holds the served Ingresses only.
type index struct {
	hosts    map[string][]*ingress      // those that name a host, the oldest first
	below    map[string]map[string]bool // the hosts below a wildcard
	services map[Name]map[user]bool     // the users of a Service
	secrets  map[Name]map[user]bool

	encrypted map[string]map[string]bool // by namespace: its hosts whose certificate can be served
	unread    map[string]map[string]bool // likewise: those of which that is not known yet
	routed    map[string]map[string]bool // by namespace: its hosts that a rule names
}

// user is a part of an Ingress that uses another object: that of a host, "" for its default backend.
type user struct {
	ingress Name
	host    string
}

func newIndex() index {
	return index{
		map[string][]*ingress{},
		map[string]map[string]bool{},
		map[Name]map[user]bool{},
		map[Name]map[user]bool{},
		map[string]map[string]bool{},
		map[string]map[string]bool{},
		map[string]map[string]bool{},
	}
}

// set adds a value to the set of a key, or removes it.
func set[K, V comparable](sets map[K]map[V]bool, key K, value V, is bool) {
	switch {
	case is && sets[key] == nil:
		sets[key] = map[V]bool{value: true}
	case is:
		sets[key][value] = true
	default:
		if delete(sets[key], value); len(sets[key]) == 0 {
			delete(sets, key)
		}
	}
}

// enlist adds a used Ingress of a served class, and retire removes it.
func (t *Table) enlist(i *ingress) {
	for _, name := range i.order {
		all := t.index.hosts[name]
		at, _ := slices.BinarySearchFunc(all, i, (*ingress).older)
		t.index.hosts[name] = slices.Insert(all, at, i)
	}
	t.record(i, true)
}

func (t *Table) retire(i *ingress) {
	for _, name := range i.order {
		t.index.hosts[name] = slices.DeleteFunc(t.index.hosts[name], func(o *ingress) bool { return o == i })
		if len(t.index.hosts[name]) == 0 {
			delete(t.index.hosts, name)
		}
	}
	t.record(i, false)
}

// record records what a served Ingress uses, or removes it, and marks its hosts.
func (t *Table) record(i *ingress, is bool) {
	set(t.ours, i.store, i.name(), is)
	t.pending.faults[i.name()] = true
	for _, name := range i.order {
		t.pending.hosts[name] = true
		if wildcard := above(name); wildcard != "" {
			set(t.index.below, wildcard, name, len(t.index.hosts[name]) > 0)
		}
		p := i.parts[name]
		for _, one := range p.paths {
			if s := one.backend.Service; s != nil {
				set(t.index.services, Name{i.Namespace, s.Name}, user{i.name(), name}, is)
			}
		}
		for _, c := range p.certificates {
			set(t.index.secrets, c.secret, user{i.name(), name}, is)
		}
	}
	if b := i.Spec.DefaultBackend; b != nil && b.Service != nil {
		service := Name{i.Namespace, b.Service.Name}
		set(t.index.services, service, user{i.name(), ""}, is)
		for _, name := range i.order {
			if i.parts[name].fallback != nil {
				set(t.index.services, service, user{i.name(), name}, is)
			}
		}
	}
}
