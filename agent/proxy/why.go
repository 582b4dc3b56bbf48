package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/agent/why"
)

// why asks the Envoy that serves why requests failed.
func (r *running) why(ctx context.Context) (status.Why, error) {
	epoch, started, admin := r.child.Current()
	if admin == nil {
		return status.Why{}, errors.New("no Envoy is running")
	}
	counters, err := admin.Stats(ctx, why.Filter())
	if err != nil {
		return status.Why{}, err
	}
	out := status.Why{At: time.Now(), Epoch: epoch, Since: started}
	var clusters map[string]why.Cluster
	if filter := why.ClusterFilter(counters); filter != "" {
		text, err := admin.Clusters(ctx, filter)
		if err == nil {
			clusters, err = why.Clusters(text)
		}
		if err != nil {
			out.Lacks = append(out.Lacks, "endpoints and limits: "+err.Error())
		}
	}
	if r.want.params.Stats.Limited() && !r.config.Source.own() {
		out.Lacks = append(out.Lacks, "counters that --statsInclusionPrefixes, --statsInclusionSuffixes and --statsInclusionRegexps leave out")
	}
	out.Findings = why.Explain(counters, clusters)
	return out, nil
}
