package model

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// ReadsLocalities reports whether the configuration of a proxy depends on its locality. If not, proxies of all
// localities can share it.
func (m *Mesh) ReadsLocalities() bool { return m.readsLocalities }

// localityReads are the settings in policies by which endpoints depend on the proxy's locality. They are collected from
// all levels of all policies: which of them meet in one policy is not examined.
type localityReads struct{ outlier, enabled, distribute bool }

func (r *localityReads) level(lb *networking.LoadBalancerSettings, outlier *networking.OutlierDetection) {
	r.outlier = r.outlier || outlier != nil
	r.setting(lb.GetLocalityLbSetting())
}

func (r *localityReads) setting(s *networking.LocalityLoadBalancerSetting) {
	on := s != nil && (s.Enabled == nil || s.Enabled.Value)
	r.enabled = r.enabled || on
	r.distribute = r.distribute || on && len(s.Distribute) > 0
}

func (r *localityReads) policy(p *networking.TrafficPolicy) {
	r.level(p.GetLoadBalancer(), p.GetOutlierDetection())
	for _, level := range p.GetPortLevelSettings() {
		r.level(level.GetLoadBalancer(), level.GetOutlierDetection())
	}
}

// indexLocalityReads finds out whether localities are read: by the preference of a service, by a distribution, or by
// priorities, which need outlier detection and are on by default.
func (m *Mesh) indexLocalityReads() {
	r := localityReads{outlier: m.settings.Config.GetDefaultTrafficPolicy().GetOutlierDetection() != nil, enabled: m.settings.Locality() == nil}
	r.setting(m.settings.Locality())
	for _, rules := range m.destinationRules {
		for _, all := range rules.values {
			for _, d := range all {
				r.policy(d.Spec.TrafficPolicy)
				for _, subset := range d.Spec.Subsets {
					r.policy(subset.GetTrafficPolicy())
				}
			}
		}
	}
	m.readsLocalities = r.distribute || r.outlier && r.enabled ||
		slices.ContainsFunc(m.services, func(s *Service) bool { return s.Prefer != PreferNone })
}
