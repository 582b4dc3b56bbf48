package proxy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// page returns what the page shows beside the document.
func (r *running) page() status.Page {
	var p status.Page
	if r.process.Settings != nil {
		p.Settings = r.process.Settings()
	}
	found, err := os.ReadDir(filepath.Join(r.slot.Dir(), flightRecords)) // sorted by name, which begins with the time
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Records = append(p.Records, err.Error())
	}
	for _, record := range found {
		if strings.HasSuffix(record.Name(), ".json") {
			p.Records = append(p.Records, filepath.Join(r.slot.Name(), flightRecords, record.Name()))
		}
	}
	return p
}
