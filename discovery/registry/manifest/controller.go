package manifest

//lint:file-ignore SA1019 deprecated types of Kubernetes are read too: files still have them

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// namespace holds the objects of a namespace, as they are written.
type namespace map[objectKey]held

// served returns the objects for the catalog, the templates, and the problems between objects.
func (n namespace) served() (map[objectKey]held, []template, []config.Problem) {
	c := controller{out: map[objectKey]held{}, templates: n.templates()}
	slicesOf := map[string][]held{} // EndpointSlices and Endpoints, by Service
	keys := slices.Collect(maps.Keys(n))
	sort.Slice(keys, func(i, j int) bool {
		return cmp.Or(cmp.Compare(keys[i].kind, keys[j].kind), cmp.Compare(keys[i].name, keys[j].name)) < 0
	})
	for _, key := range keys {
		o := n[key]
		c.problems = append(c.problems, doubts(o)...)
		switch x := o.Object.(type) {
		case *corev1.Service:
			c.services = append(c.services, o)
		case *corev1.Pod:
			x = settled(x)
			c.pods = append(c.pods, x)
			c.put(x, o.meta)
		case *discoveryv1.EndpointSlice:
			name := x.Labels[discoveryv1.LabelServiceName]
			slicesOf[name] = append(slicesOf[name], o)
		case *corev1.Endpoints:
			for _, s := range slicesOfEndpoints(x) {
				slicesOf[x.Name] = append(slicesOf[x.Name], held{s, o.meta})
			}
		case *corev1.Node, *corev1.Namespace:
			c.put(o.Object, o.meta)
		}
	}
	for _, o := range c.services {
		s := o.Object.(*corev1.Service).DeepCopy()
		c.service(s, o.meta, slicesOf[s.Name])
		delete(slicesOf, s.Name)
	}
	c.problems = append(c.problems, shared(c.services, c.templates)...)
	for _, rest := range slicesOf { // of a Service that does not exist
		for _, s := range rest {
			c.put(s.Object, s.meta)
		}
	}
	return c.out, append(c.templates, unaddressed(c.pods, n)...), c.problems
}

// controller makes the objects that the controllers of a cluster would make.
type controller struct {
	services  []held
	pods      []*corev1.Pod
	templates []template
	out       map[objectKey]held
	problems  []config.Problem
}

func (c *controller) put(o metav1.Object, meta model.Meta) {
	kind := meta.Kind
	switch o.(type) {
	case *discoveryv1.EndpointSlice:
		kind = "EndpointSlice"
	case *corev1.Pod:
		kind = "Pod"
	}
	c.out[objectKey{kind, o.GetName()}] = held{o, meta}
}

// service adds a Service, which it may change, and its slices.
func (c *controller) service(s *corev1.Service, meta model.Meta, written []held) {
	defer c.put(s, meta)
	if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName {
		for _, slice := range written {
			c.put(slice.Object, slice.meta)
		}
		return
	}
	selected := slices.DeleteFunc(slices.Clone(c.templates), func(t template) bool { return !model.Selects(s.Spec.Selector, t.labels) })
	pods := slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool { return !model.Selects(s.Spec.Selector, p.Labels) })
	for _, slice := range written {
		c.put(c.withPods(slice.Object.(*discoveryv1.EndpointSlice), selected, slice.meta), slice.meta)
	}
	if len(written) == 0 {
		for _, p := range pods {
			if slice := sliceOfPod(s, p); slice != nil {
				c.put(slice, meta)
			}
		}
	}
	for i := range s.Spec.Ports {
		c.number(s, i, selected, pods, meta, len(written) > 0)
	}
}

// number replaces the name of a target port by its number. Endpoints of slices have their own port numbers: this one is
// only used for other endpoints.
func (c *controller) number(s *corev1.Service, i int, selected []template, pods []*corev1.Pod, meta model.Meta, listed bool) {
	port := &s.Spec.Ports[i]
	if port.TargetPort.Type != intstr.String || port.TargetPort.StrVal == "" {
		return
	}
	name, number := port.TargetPort.StrVal, port.Port
	var owners, different []string
	add := func(owner string, containers [][]corev1.Container) {
		n, ok := numberOf(containers, *port)
		switch {
		case !ok:
		case len(owners) == 0:
			number = n
			owners = append(owners, fmt.Sprintf("%d of %s", n, owner))
		case n != number:
			different = append(different, fmt.Sprintf("%d of %s", n, owner))
		}
	}
	for _, t := range selected {
		add(t.meta.Kind+" "+t.meta.Name, t.containers)
	}
	for _, p := range pods {
		add("Pod "+p.Name, [][]corev1.Container{p.Spec.Containers, sidecars(p.Spec.InitContainers)})
	}
	port.TargetPort = intstr.FromInt32(number)
	path := fmt.Sprintf("spec.ports[%d].targetPort", i)
	switch {
	case len(owners) == 0 && !listed:
		c.problems = append(c.problems, problem(meta, config.Warning, path,
			"is %q, which is no port of the Pods and Deployments that it selects: %d is dialled where an endpoint says nothing else", name, number))
	case len(different) > 0:
		c.problems = append(c.problems, problem(meta, config.Warning, path,
			"is %q, which is %s: %d is dialled where an endpoint says nothing else", name, strings.Join(append(owners, different...), " and "), number))
	}
}

// numberOf returns the port of containers to which a service's port refers.
func numberOf(containers [][]corev1.Container, of corev1.ServicePort) (int32, bool) {
	for _, list := range containers {
		for _, c := range list {
			for _, p := range c.Ports {
				if p.Name == of.TargetPort.StrVal && cmp.Or(p.Protocol, corev1.ProtocolTCP) == cmp.Or(of.Protocol, corev1.ProtocolTCP) {
					return p.ContainerPort, true
				}
			}
		}
	}
	return 0, false
}

// sidecars returns the init containers that run as long as the others.
func sidecars(in []corev1.Container) (out []corev1.Container) {
	for _, c := range in {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

// withPods returns the slice with a new Pod for each endpoint that a template has started and whose Pod is in no file.
// The Pod has no addresses, so that only the endpoint gets its labels.
func (c *controller) withPods(s *discoveryv1.EndpointSlice, selected []template, meta model.Meta) *discoveryv1.EndpointSlice {
	s = s.DeepCopy()
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		name := ""
		if e.TargetRef != nil {
			if e.TargetRef.Kind != "Pod" {
				continue
			}
			name = e.TargetRef.Name
		}
		if len(e.Addresses) == 0 || name != "" && slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			continue
		}
		t, ok := madeBy(selected, name)
		if !ok {
			continue
		}
		stand := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("of %s %s at %s", t.meta.Kind, t.meta.Name, e.Addresses[0]), Labels: t.labels},
			Spec:       corev1.PodSpec{ServiceAccountName: t.account},
		}
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: stand.Name}
		c.put(stand, meta)
	}
	return s
}

// newSlice returns an EndpointSlice of a Service. Its name shows what it was made from; no slice that a user writes has
// such a name.
func newSlice(namespace, service string, family discoveryv1.AddressType, format string, args ...any) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf(format, args...), Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: family,
	}
}

// family returns the family of an address; other text is reported as a wrong IPv4 address.
func family(address string) discoveryv1.AddressType {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Unmap().Is6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// slicesOfEndpoints returns Endpoints as EndpointSlices: one for each list of ports and family.
func slicesOfEndpoints(o *corev1.Endpoints) (out []*discoveryv1.EndpointSlice) {
	for i, subset := range o.Subsets {
		ports := []discoveryv1.EndpointPort{}
		for _, p := range subset.Ports {
			ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
		}
		by := map[discoveryv1.AddressType]*discoveryv1.EndpointSlice{}
		add := func(a corev1.EndpointAddress, ready bool) {
			at := family(a.IP)
			if by[at] == nil {
				by[at] = newSlice(o.Namespace, o.Name, at, "of Endpoints %s, subsets[%d], %s,", o.Name, i, at)
				by[at].Ports = ports
				out = append(out, by[at])
			}
			by[at].Endpoints = append(by[at].Endpoints, discoveryv1.Endpoint{
				Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: a.TargetRef, NodeName: a.NodeName,
			})
		}
		for _, a := range subset.Addresses {
			add(a, true)
		}
		for _, a := range subset.NotReadyAddresses {
			add(a, false)
		}
	}
	return out
}

// sliceOfPod returns a slice with a Pod as an endpoint of a Service that selects it; nil if the Pod cannot be called.
func sliceOfPod(s *corev1.Service, p *corev1.Pod) *discoveryv1.EndpointSlice {
	address := p.Status.PodIP
	for _, ip := range p.Status.PodIPs {
		if address == "" || len(s.Spec.IPFamilies) > 0 && string(family(ip.IP)) == string(s.Spec.IPFamilies[0]) {
			address = ip.IP
		}
	}
	if address == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	out := newSlice(s.Namespace, s.Name, family(address), "of Pod %s of Service %s", p.Name, s.Name)
	for _, port := range s.Spec.Ports {
		number := cmp.Or(port.TargetPort.IntVal, port.Port)
		if port.TargetPort.Type == intstr.String {
			var ok bool
			if number, ok = numberOf([][]corev1.Container{p.Spec.Containers, sidecars(p.Spec.InitContainers)}, port); !ok {
				continue
			}
		}
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &number, Protocol: &port.Protocol})
	}
	if len(s.Spec.Ports) > 0 && len(out.Ports) == 0 {
		return nil
	}
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	terminating, serving := p.DeletionTimestamp != nil, ready
	ready = ready && !terminating
	out.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{address}, NodeName: &p.Spec.NodeName,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}}
	return out
}

// settled returns the Pod, marked as ready unless it has another status: nothing checks its readiness here.
func settled(p *corev1.Pod) *corev1.Pod {
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
		return p
	}
	p = p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	return p
}
