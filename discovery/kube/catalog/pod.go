package catalog

import (
	"cmp"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Labels that say where something runs.
const (
	networkLabel  = "topology.istio.io/network" // of a Pod, or of the system's namespace
	localityLabel = "istio-locality"            // of a Pod: its node's counts for nothing then. Dots stand for slashes
	subZoneLabel  = "topology.istio.io/subzone" // of a Node
)

// pod is a Pod as far as it matters.
type pod struct {
	uid       string
	origin    model.Origin
	addresses []string
	labels    map[string]string
	account   string
	node      string
	health    model.Health
	ended     bool // it runs no more: its addresses may be another's
}

func podOf(o *corev1.Pod, at model.Origin) *pod {
	p := &pod{
		uid: string(o.UID), origin: at, labels: o.Labels, node: o.Spec.NodeName,
		account: cmp.Or(o.Spec.ServiceAccountName, "default"), // as the API server fills it in
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
		return model.HealthDraining
	default:
		return model.HealthUnhealthy
	}
}

// putPod takes a Pod; nil for one that is gone.
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
	c.dirty[key] = true
	for slice := range c.slicesFor[key] {
		c.touch(slice)
	}
}

// workload returns the workload of a Pod; nil for one that cannot be called.
func (c *Catalog) workload(key Key, p *pod) *model.Workload {
	if p.ended || len(p.addresses) == 0 {
		return nil
	}
	return &model.Workload{
		Registry: c.options.Registry, Cluster: c.options.Cluster, Namespace: key.Namespace, Name: key.Name, Addresses: p.addresses,
		Labels: p.labels, ServiceAccount: p.account, Locality: c.locality(p, p.node, ""), Network: c.networkOf(p), Health: p.health,
		Origin: p.origin,
	}
}

// networkOf is where the addresses of a Pod, nil for one that is not known, are reachable.
func (c *Catalog) networkOf(p *pod) string {
	if p == nil {
		return c.network
	}
	return cmp.Or(p.labels[networkLabel], c.network)
}

// setNetwork makes it that of the cluster.
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

// node is where a Node is.
type node struct{ model.Locality }

func nodeOf(o *corev1.Node) *node {
	return &node{model.Locality{
		Region:  cmp.Or(o.Labels[corev1.LabelTopologyRegion], o.Labels[corev1.LabelFailureDomainBetaRegion]),
		Zone:    cmp.Or(o.Labels[corev1.LabelTopologyZone], o.Labels[corev1.LabelFailureDomainBetaZone]),
		SubZone: o.Labels[subZoneLabel],
	}}
}

// putNode takes a Node; nil for one that is gone. Nodes tell of themselves all the time, rarely that they have moved.
func (c *Catalog) putNode(name string, now *node) {
	was := c.nodes[name]
	if was != nil && now != nil && *was == *now {
		return
	}
	if c.nodes[name] = now; now == nil {
		delete(c.nodes, name)
	}
	for key := range c.podsOn[name] {
		c.dirty[key] = true
		for slice := range c.slicesFor[key] {
			c.touch(slice)
		}
	}
	for slice := range c.slicesOn[name] {
		c.touch(slice)
	}
}

// locality returns where a Pod, nil for one that is not known, runs: by its label, else by its node's labels, else by the zone.
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
