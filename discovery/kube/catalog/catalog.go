package catalog

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Options are the settings for a cluster.
type Options struct {
	Registry        string       // the name of the registry; "Kubernetes" if empty
	Cluster         string       // of all objects
	Domain          model.Domain // of the hosts of Services
	SystemNamespace string       // its label topology.istio.io/network is the cluster's network; "istio-system" if empty
}

// Object is a type of object that a Catalog reads.
type Object interface {
	*corev1.Service | *discoveryv1.EndpointSlice | *corev1.Pod | *corev1.Node | *corev1.Namespace
}

// Kind names a type of Object.
type Kind string

const (
	Service       Kind = "Service"
	EndpointSlice Kind = "EndpointSlice"
	Pod           Kind = "Pod"
	Node          Kind = "Node"
	Namespace     Kind = "Namespace"
)

// Key names an object. The namespace of a Node and of a Namespace is empty.
type Key struct {
	Kind            Kind
	Namespace, Name string
}

// String returns the key of the object's group.
func (k Key) String() string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// Catalog holds the objects of a cluster. The zero value is not usable: see New.
type Catalog struct {
	options Options
	network string // of pods without a label for it

	services map[Key]*service
	slices   map[Key]*slice
	pods     map[Key]*pod
	nodes    map[string]*node

	slicesOf  index[Key, Key]    // slices by service
	slicesFor index[Key, Key]    // slices by the pods that they name
	slicesOn  index[string, Key] // slices by the nodes that they name
	podsOn    index[string, Key] // pods by node
	holders   index[string, Key] // services and pods by the addresses that only they have
	listing   index[string, Key] // headless services by the addresses that their slices list

	dirty map[Key]bool    // services and pods whose groups may have changed
	moved map[string]bool // addresses that other Services or Pods have now
	sent  map[Key]model.Group
}

// New returns an empty catalog.
func New(o Options) *Catalog {
	for _, field := range []struct {
		value     *string
		otherwise string
	}{
		{&o.Registry, "Kubernetes"}, {&o.SystemNamespace, "istio-system"},
	} {
		if *field.value == "" {
			*field.value = field.otherwise
		}
	}
	return &Catalog{
		options: o, services: map[Key]*service{}, slices: map[Key]*slice{}, pods: map[Key]*pod{}, nodes: map[string]*node{},
		slicesOf: index[Key, Key]{}, slicesFor: index[Key, Key]{}, slicesOn: index[string, Key]{}, podsOn: index[string, Key]{},
		holders: index[string, Key]{}, listing: index[string, Key]{},
		dirty: map[Key]bool{}, moved: map[string]bool{}, sent: map[Key]model.Group{},
	}
}

// Record returns the origin of an object of an API server. It has no resourceVersion: a change of the object's status
// would otherwise change its group.
func Record(cluster string, o metav1.Object) model.Origin {
	return model.Origin{Record: &model.Record{Cluster: cluster, UID: string(o.GetUID()), Generation: o.GetGeneration()}}
}

// KeyOf returns the key of an object of one of the types of Object, and false for any other.
func KeyOf(o any) (Key, bool) {
	switch o := o.(type) {
	case *corev1.Service:
		return keyOf(Service, o), true
	case *discoveryv1.EndpointSlice:
		return keyOf(EndpointSlice, o), true
	case *corev1.Pod:
		return keyOf(Pod, o), true
	case *corev1.Node:
		return Key{Kind: Node, Name: o.Name}, true
	case *corev1.Namespace:
		return Key{Kind: Namespace, Name: o.Name}, true
	default:
		return Key{}, false
	}
}

func keyOf(kind Kind, o metav1.Object) Key { return Key{kind, o.GetNamespace(), o.GetName()} }

// Put stores an object, in the place of an older form of it. Of o it keeps only strings and the maps of its labels,
// which the caller must not change afterwards. at is the origin of the object. An o that is not an Object is ignored.
func (c *Catalog) Put(o any, at model.Origin) {
	key, _ := KeyOf(o)
	switch o := o.(type) {
	case *corev1.Service:
		c.putService(key, o, at)
	case *discoveryv1.EndpointSlice:
		c.putSlice(key, sliceOf(o))
	case *corev1.Pod:
		c.putPod(key, podOf(o, at))
	case *corev1.Node:
		c.putNode(o.Name, nodeOf(o))
	case *corev1.Namespace:
		if o.Name == c.options.SystemNamespace {
			c.setNetwork(o.Labels[networkLabel])
		}
	}
}

// Delete removes an object. It ignores a key that it does not have.
func (c *Catalog) Delete(key Key) {
	switch key.Kind {
	case Service:
		if s := c.services[key]; s != nil {
			c.move(key, s.addresses(), nil)
			c.lists(key, nil)
		}
		delete(c.services, key)
		c.dirty[key] = true
	case EndpointSlice:
		c.putSlice(key, nil)
	case Pod:
		c.putPod(key, nil)
	case Node:
		c.putNode(key.Name, nil)
	case Namespace:
		if key.Name == c.options.SystemNamespace {
			c.setNetwork("")
		}
	}
}

// Keep deletes the objects of a kind for which keep returns false, such as those that are not in a new list.
func (c *Catalog) Keep(kind Kind, keep func(Key) bool) {
	var gone []Key
	look := func(key Key) {
		if !keep(key) {
			gone = append(gone, key)
		}
	}
	switch kind {
	case Service:
		for key := range c.services {
			look(key)
		}
	case EndpointSlice:
		for key := range c.slices {
			look(key)
		}
	case Pod:
		for key := range c.pods {
			look(key)
		}
	case Node:
		for name := range c.nodes {
			look(Key{Kind: Node, Name: name})
		}
	case Namespace:
		look(Key{Kind: Namespace, Name: c.options.SystemNamespace})
	}
	for _, key := range gone {
		c.Delete(key)
	}
}

// Changes returns the groups that differ from those of the last call, by key. An empty group stands for one that was
// removed.
func (c *Catalog) Changes() map[string]model.Group {
	c.touchHeadless()
	out := map[string]model.Group{}
	for key := range c.dirty {
		now, was := c.group(key), c.sent[key]
		if now.Same(was) && slices.Equal(now.Faults, was.Faults) {
			continue
		}
		if c.sent[key] = now; now.Empty() {
			delete(c.sent, key)
		}
		out[key.String()] = now
	}
	clear(c.dirty)
	return out
}

func (c *Catalog) group(key Key) model.Group {
	switch {
	case key.Kind == Pod && c.pods[key] != nil:
		if w := c.workload(key, c.pods[key]); w != nil {
			return model.Group{Workloads: []*model.Workload{w}}
		}
	case key.Kind == Service && c.services[key] != nil:
		s := c.services[key]
		g := model.Group{Faults: s.faults}
		if s.good != nil {
			service, faults := c.withEndpoints(key, s.good)
			g.Services, g.Faults = []*model.Service{service}, append(slices.Clone(s.faults), faults...)
		}
		return g
	}
	return model.Group{}
}

// index holds sets of values by key.
type index[K, V comparable] map[K]set[V]

// set is a list as long as it is short: nearly all sets have one value, for which a map would take ten times the room.
type set[V comparable] struct {
	few  []V
	many map[V]bool // in the place of few
}

const maxFew = 16

func (i index[K, V]) add(key K, value V) {
	s := i[key]
	switch {
	case s.many != nil:
		s.many[value] = true
		return
	case slices.Contains(s.few, value):
		return
	case len(s.few) < maxFew:
		s.few = append(s.few, value)
	default:
		s.many = map[V]bool{value: true}
		for _, v := range s.few {
			s.many[v] = true
		}
		s.few = nil
	}
	i[key] = s
}

func (i index[K, V]) remove(key K, value V) {
	s := i[key]
	if s.many != nil {
		delete(s.many, value)
	} else if at := slices.Index(s.few, value); at >= 0 {
		s.few = slices.Delete(s.few, at, at+1)
		i[key] = s
	}
	if len(s.few)+len(s.many) == 0 {
		delete(i, key)
	}
}

// of yields the values of a key, in no particular order.
func (i index[K, V]) of(key K) iter.Seq[V] {
	if s := i[key]; s.many == nil {
		return slices.Values(s.few)
	}
	return maps.Keys(i[key].many)
}
