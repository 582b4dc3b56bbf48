package catalog

import (
	"cmp"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Labels for the network and the locality.
const (
	networkLabel  = "topology.istio.io/network" // of a Pod, or of the system's namespace
	localityLabel = "istio-locality"            // of a Pod: has precedence over the node's labels. Dots stand for slashes
	subZoneLabel  = "topology.istio.io/subzone" // of a Node
)

// pod is the part of a Pod that the catalog uses.
type pod struct {
	uid       string
	origin    model.Origin
	addresses []string
	labels    map[string]string
	account   string
	node      string
	health    model.Health
	ended     bool // it has ended: another Pod may have its addresses
	onNode    bool // its addresses are its node's
}

func podOf(o *corev1.Pod, at model.Origin) *pod {
	p := &pod{
		uid: string(o.UID), origin: at, labels: o.Labels, node: o.Spec.NodeName,
		account: cmp.Or(o.Spec.ServiceAccountName, "default"), // as the API server fills it in
		onNode:  o.Spec.HostNetwork,
		ended:   o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed,
	}
	for _, ip := range o.Status.PodIPs {
		p.addresses = append(p.addresses, model.Address(ip.IP))
	}
	if len(p.addresses) == 0 && o.Status.PodIP != "" {
		p.addresses = []string{model.Address(o.Status.PodIP)}
	}
	ready := false
	for _, condition := range o.Status.Conditions {
		if condition.Type == corev1.PodReady {
			ready = condition.Status == corev1.ConditionTrue
		}
	}
	p.health = healthOf(ready && o.DeletionTimestamp == nil, ready, o.DeletionTimestamp != nil)
	return p
}

func healthOf(ready, serving, terminating bool) model.Health {
	switch {
	case ready:
		return model.HealthHealthy
	case serving && terminating:
		return model.HealthTerminating
	default:
		return model.HealthUnready
	}
}

// putPod stores a Pod; nil removes it.
func (c *Catalog) putPod(key Key, now *pod) {
	was := c.pods[key]
	if reflect.DeepEqual(was, now) {
		return
	}
	if was != nil {
		c.podsOn.remove(was.node, key)
	}
	if c.pods[key] = now; now == nil {
		delete(c.pods, key)
	} else {
		c.podsOn.add(now.node, key)
	}
	c.move(key, was.own(), now.own())
	c.dirty[key] = true
	for slice := range c.slicesFor.of(key) {
		c.touch(slice)
	}
}

// workload returns the workload of a Pod; nil for one that has ended or has no address.
func (c *Catalog) workload(key Key, p *pod) *model.Workload {
	if p.ended || len(p.addresses) == 0 {
		return nil
	}
	return &model.Workload{
		Registry: c.options.Registry, Cluster: c.options.Cluster, Namespace: key.Namespace, Name: key.Name, Addresses: p.addresses,
		Labels: p.labels, ServiceAccount: p.account, Locality: c.locality(p, p.node, ""), Network: c.networkOf(p), Health: p.health,
		OnNode: p.onNode, Origin: p.origin,
	}
}

// networkOf returns the network of a Pod; for nil that of the cluster.
func (c *Catalog) networkOf(p *pod) string {
	if p == nil {
		return c.network
	}
	return cmp.Or(p.labels[networkLabel], c.network)
}

// setNetwork sets the network of the cluster.
func (c *Catalog) setNetwork(network string) {
	if c.network == network {
		return
	}
	c.network = network
	for key := range c.pods {
		c.dirty[key] = true
	}
	for key := range c.services {
		c.dirty[key] = true
	}
}

// node is the locality of a Node.
type node struct{ model.Locality }

func nodeOf(o *corev1.Node) *node {
	return &node{model.Locality{
		Region:  cmp.Or(o.Labels[corev1.LabelTopologyRegion], o.Labels[corev1.LabelFailureDomainBetaRegion]),
		Zone:    cmp.Or(o.Labels[corev1.LabelTopologyZone], o.Labels[corev1.LabelFailureDomainBetaZone]),
		SubZone: o.Labels[subZoneLabel],
	}}
}

// putNode stores a Node; nil removes it. Nodes change very often, their locality rarely.
func (c *Catalog) putNode(name string, now *node) {
	was := c.nodes[name]
	if was != nil && now != nil && *was == *now {
		return
	}
	if c.nodes[name] = now; now == nil {
		delete(c.nodes, name)
	}
	for key := range c.podsOn.of(name) {
		c.dirty[key] = true
		for slice := range c.slicesFor.of(key) {
			c.touch(slice)
		}
	}
	for slice := range c.slicesOn.of(name) {
		c.touch(slice)
	}
}

// locality returns the locality of a Pod, which may be nil: by its label, else by its node's labels, else the zone.
func (c *Catalog) locality(p *pod, on, zone string) model.Locality {
	if p != nil {
		if label := p.labels[localityLabel]; label != "" {
			return model.ParseLocality(strings.ReplaceAll(label, ".", "/"))
		}
		on = cmp.Or(p.node, on)
	}
	if n := c.nodes[on]; n != nil && n.Locality != (model.Locality{}) {
		return n.Locality
	}
	return model.Locality{Zone: zone}
}
