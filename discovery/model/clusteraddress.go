package model

import (
	"maps"
	"slices"
)

// Each cluster can give a service addresses of its own, and its DNS answers the workloads of the cluster with those. In
// a cluster that gives the service no addresses, the owner's addresses are used.

// AddressesIn returns the addresses by which workloads of a cluster call the service: the cluster's own ones if there
// are any, else the owner's.
func (s *Service) AddressesIn(cluster string) []string {
	if own, ok := s.ClusterAddresses[cluster]; ok {
		return own
	}
	return s.Addresses
}

// ClusterAs returns cluster if some service has other addresses in this cluster than its owner gives it, else "".
// Proxies of all clusters for which it returns "" call every service by the same addresses.
func (m *Mesh) ClusterAs(cluster string) string {
	if m.clusters[cluster] {
		return cluster
	}
	return ""
}

// clusterAddresses returns the addresses of each cluster that differ from the owner's. If two declarations belong to
// one cluster, the first one is used.
func (c claimants) clusterAddresses() map[string][]string {
	var out map[string][]string
	for _, s := range c[1:] {
		if s != c.addressed(s) || slices.Equal(s.Addresses, c[0].Addresses) {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[s.Cluster] = s.Addresses
	}
	return out
}

// addressed returns the declaration whose addresses are used in the cluster of s: the first declaration of that cluster
// that has addresses, else the owner's.
func (c claimants) addressed(s *Service) *Service {
	if s.Cluster == "" {
		return c[0]
	}
	for i, o := range c {
		if o.Cluster == s.Cluster && len(o.Addresses) > 0 && (i == 0 || apart(c[0], o) == "") {
			return o
		}
	}
	return c[0]
}

// indexClusters finds the clusters in which services have addresses of their own.
func (m *Mesh) indexClusters() {
	m.clusters = map[string]bool{}
	for key := range m.contested {
		for _, s := range m.claims(key.host) {
			for cluster := range s.ClusterAddresses {
				m.clusters[cluster] = true
			}
		}
	}
}

// sameAddresses reports whether two services have the same addresses in every cluster.
func sameAddresses(a, b *Service) bool {
	return slices.Equal(a.Addresses, b.Addresses) && maps.EqualFunc(a.ClusterAddresses, b.ClusterAddresses, slices.Equal[[]string])
}
