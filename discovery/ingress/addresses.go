package ingress

import (
	"cmp"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
)

// Addresses returns the addresses at which clients outside of the cluster reach the proxies behind a Service, in order:
// those of its load balancer and its external IPs; without these, the addresses of the Nodes on which its ready Pods
// run, external before internal ones. A nil Service has none.
func Addresses(s *corev1.Service, pods []*corev1.Pod, nodes map[string]*corev1.Node) (out []networkingv1.IngressLoadBalancerIngress) {
	if s == nil {
		return nil
	}
	for _, at := range s.Status.LoadBalancer.Ingress {
		out = append(out, networkingv1.IngressLoadBalancerIngress{IP: at.IP, Hostname: at.Hostname})
	}
	for _, ip := range s.Spec.ExternalIPs {
		out = append(out, networkingv1.IngressLoadBalancerIngress{IP: ip})
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		out = append(out, networkingv1.IngressLoadBalancerIngress{Hostname: s.Spec.ExternalName})
	}
	if len(out) == 0 && len(s.Spec.Selector) > 0 {
		selector := labels.SelectorFromSet(s.Spec.Selector)
		for _, p := range pods {
			if p.Namespace == s.Namespace && selector.Matches(labels.Set(p.Labels)) && ready(p) {
				out = append(out, nodeAddress(nodes[p.Spec.NodeName])...)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.Hostname, b.Hostname)) < 0
	})
	return slices.CompactFunc(out, func(a, b networkingv1.IngressLoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname
	})
}

func ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func nodeAddress(n *corev1.Node) []networkingv1.IngressLoadBalancerIngress {
	if n == nil {
		return nil
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				return []networkingv1.IngressLoadBalancerIngress{{IP: a.Address}}
			}
		}
	}
	return nil
}
