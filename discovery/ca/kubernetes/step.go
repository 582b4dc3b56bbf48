package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const (
	reportAgain = 10 * time.Second // how often a replica writes how far the certificates are that it knows
	reportLives = 5 * time.Minute  // that long after its last report a replica is not counted
)

// report is what a replica knows of certificates while a root is rotated. It is for people: no step depends on it.
type report struct {
	Live int       `json:"live"`
	Both int       `json:"both"` // of these, that came with both roots
	At   time.Time `json:"at"`

	Most time.Duration `json:"most"` // its --caMaxTTL; 0 of one that is older, and does not say so
}

// differing names replicas whose --caMaxTTL differs. The longest of those that say so counts. One that is cut off says nothing, so they must have the same.
func differing(reports map[string]report) string {
	var least, most string
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		switch of := reports[name].Most; {
		case of == 0:
		case least == "":
			least, most = name, name
		case of < reports[least].Most:
			least = name
		case of > reports[most].Most:
			most = name
		}
	}
	if least == most {
		return ""
	}
	return fmt.Sprintf("; --caMaxTTL is %s at %s and %s at %s: give all replicas the longer one", reports[least].Most, least, reports[most].Most, most)
}

// advance returns the Secret after what is due of a rotation, with this replica's report; nil for nothing. Each replica does it: the API server takes
// one of them by the resourceVersion.
func advance(d data, replica string, o ca.Observed, at time.Time) (data, error) {
	r, err := rotationOf(d)
	if err != nil || r.Phase == "" {
		return nil, err
	}
	var reports map[string]report
	if json.Unmarshal(d[replicasFile], &reports) != nil || reports == nil { // none, or nothing that can be read: each writes again
		reports = map[string]report{}
	}
	maps.DeleteFunc(reports, func(_ string, of report) bool { return at.Sub(of.At) > reportLives })
	last := reports[replica]
	reports[replica] = report{o.Live, o.Both, at.UTC().Truncate(time.Second), o.Most}
	o.Live, o.Both = 0, 0
	for _, of := range reports {
		o.Live, o.Both = o.Live+of.Live, o.Both+of.Both
	}
	o.Shared = true
	next := r.Step(o, at)
	if next.Phase == ca.Trust || next.Phase == ca.Leaves {
		next.Waits = fmt.Sprintf("%s; replicas that say so: %d%s", next.Waits, len(reports), differing(reports))
	}
	due := at.Sub(last.At) >= reportAgain || at.Before(last.At)
	if next.Phase == r.Phase && next.Phase != ca.Forget && next.Most == r.Most && (!due || next.Waits == r.Waits && at.Sub(last.At) < reportLives/2) {
		return nil, nil
	}
	if next.Phase == ca.Forget {
		out := withoutRotation(d)
		delete(out, ca.ChainFile)
		for _, name := range []string{ca.CertFile, ca.KeyFile, ca.RootsFile} {
			out[name] = d[ca.NextName(name)]
		}
		if out[ca.LastFile], err = next.Bytes(); err != nil {
			return nil, err
		}
		former := append([]string{r.Old}, formerOf(d)...)
		out[formerFile] = []byte(strings.Join(former[:min(len(former), mostFormer)], "\n") + "\n")
		return out, nil
	}
	out := maps.Clone(d)
	if out[ca.RotationFile], err = next.Bytes(); err == nil {
		out[replicasFile], err = json.Marshal(reports)
	}
	return out, err
}
