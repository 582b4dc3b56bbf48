package config

import (
	networking "istio.io/api/networking/v1alpha3"
)

func destinationRuleServed() served {
	return served{
		fields: []string{
			"host", "exportTo", "trafficPolicy.loadBalancer.simple",
			"subsets.name", "subsets.labels", "subsets.trafficPolicy.loadBalancer.simple",
		},
		conditions: []string{"workloadSelector"},
	}
}

func destinationRule(f field, r *networking.DestinationRule) {
	f.at("host").host(r.Host, true)
	f.at("exportTo").exportTo(r.ExportTo)
	names := unique{}
	for i, subset := range r.Subsets {
		at := f.at("subsets").item(i)
		at.at("name").label(subset.GetName())
		names.add(at.at("name"), subset.GetName())
		at.at("labels").labels(subset.GetLabels())
	}
}
