package model

import (
	"maps"
	"slices"
)

// Each cluster gives a service addresses of its own, and answers its workloads with those. The owner's addresses stand for the service in
// every cluster that gives it none.

// AddressesIn returns the addresses by which workloads of a cluster call the service: those that the cluster gives it, else
// the owner's.
func (s *Service) AddressesIn(cluster string) []string {
	if own, ok := s.ClusterAddresses[cluster]; ok {
		return own
	}
	return s.Addresses
}

// ClusterAs returns cluster where it gives some service other addresses than the owner of that service does; else "".
// Proxies of all clusters for which it is "" call every service by the same addresses.
func (m *Mesh) ClusterAs(cluster string) string {
	if m.clusters[cluster] {
		return cluster
	}
	return ""
}

// clusterAddresses returns the addresses of each cluster that differ from the owner's. Of two declarations of one cluster the
// first counts.
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

// addressed returns the declaration whose addresses are used in the cluster of s: the first one of that cluster that has any,
// else the owner's.
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

// indexClusters finds the clusters for which services have addresses of their own.
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
