package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	counters, err := admin.Stats(ctx, why.Filter()+"|"+droppedFilter)
	if err != nil {
		return status.Why{}, err
	}
	out := status.Why{At: time.Now(), Node: r.want.params.Node.String(), Epoch: epoch, Since: started}
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
	var more int
	if out.Findings, more = why.Explain(counters, clusters); more > 0 {
		out.Lacks = append(out.Lacks, fmt.Sprintf("%d more causes, each of at most %d failures", more, out.Findings[len(out.Findings)-1].Count))
	}
	if b := r.child.Bypassed(); b != nil {
		out.Lacks = append(out.Lacks, "what came past Envoy: "+b.String())
	}
	r.tellRequests(&out, counters[dropped])
	return out, nil
}

// dropped counts the records that Envoy had no room for.
const dropped, droppedFilter = "access_logs.grpc_access_log.logs_dropped", `^access_logs\.grpc_access_log\.logs_dropped$`

// tellRequests adds the last requests that failed, and what is not known of others.
func (r *running) tellRequests(out *status.Why, dropped int64) {
	report := r.secrets.records.Report()
	out.Requests, out.Recorded = report.Requests, report.Since
	lacks := func(format string, values ...any) { out.Lacks = append(out.Lacks, fmt.Sprintf(format, values...)) }
	if report.Since.Sub(out.Since) > time.Second {
		lacks("failed requests before %s: an earlier image of the agent had their records", report.Since.UTC().Format(time.RFC3339))
	}
	if dropped > 0 {
		lacks("%d failed requests that are only counted: they came faster than the agent takes records, or while it stood still", dropped)
	}
	if report.Faults > 0 {
		lacks("failed requests in %d messages of Envoy that are no records", report.Faults)
	}
	switch text, _, err := r.config.Source.bootstrap(r.want.params); {
	case r.want.params.SecretsSocket == "":
		lacks("failed requests themselves: the agent has no socket for their records, see its log")
	case r.config.Source.own() && (err != nil || !bytes.Contains(text, []byte("agent_records"))):
		lacks("failed requests themselves: no access log of the bootstrap names the cluster agent_records; docs/bootstrap.md shows one")
	}
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
