package acme

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Times of reports, and how much one has.
const (
	ReportAgain = 10 * time.Second // a replica writes its report, if nothing has changed
	reportLives = 30 * time.Second // a replica whose report has not changed for so long is not waited for
	reportStays = 5 * time.Minute  // until others remove it
	maxKinds    = 100
)

// Kind is a kind of gateways: workloads that the same Gateways select.
type Kind struct {
	Namespace string            `json:"Namespace"`
	Labels    map[string]string `json:"Labels"` // those that selectors of Gateways name
}

// Report is what a replica says of the gateways that are connected to it.
type Report struct {
	At    time.Time `json:"At"` // by its own clock: a change says that it lives
	Kinds []Kind    `json:"Kinds"`
	// Shown has the tokens of questions that none of its gateways fails to answer, with how many of these serve the host.
	Shown map[string]int `json:"Shown"`
}

// Heard is a report, and when it was seen first.
type Heard struct {
	Report
	Since time.Time
}

// Hear returns the reports that were read at now. Clocks of hosts differ: a report lives from when it was seen to change. One that is missing was lost, for
// replicas do not take theirs away.
func Hear(before map[string]Heard, reports map[string]Report, now time.Time) map[string]Heard {
	out := map[string]Heard{}
	for name, was := range before {
		if now.Sub(was.Since) < reportLives {
			out[name] = was
		}
	}
	for name, r := range reports {
		if was, is := before[name]; is && was.At.Equal(r.At) {
			out[name] = Heard{r, was.Since}
			continue
		}
		out[name] = Heard{r, now}
	}
	return out
}

// live returns the names of the replicas that live, but for one, sorted.
func live(heard map[string]Heard, own string, now time.Time) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(heard)) {
		if name != own && now.Sub(heard[name].Since) < reportLives {
			names = append(names, name)
		}
	}
	return names
}

// KindsOf returns the kinds of gateways of namespaces among proxies, at most maxKinds, in an order of their own; more is whether there are more.
func KindsOf(m *model.Mesh, connected []model.Proxy, namespaces []string) (kinds []Kind, more bool) {
	named := map[string]bool{}
	for _, o := range m.Objects() {
		if g, is := o.Spec.(*networking.Gateway); is {
			for label := range g.Selector {
				named[label] = true
			}
		}
	}
	found := map[string]Kind{}
	for _, p := range connected {
		if !p.Gateway || !slices.Contains(namespaces, p.Namespace) {
			continue
		}
		k := Kind{p.Namespace, map[string]string{}}
		for label, value := range p.Labels {
			if named[label] {
				k.Labels[label] = value
			}
		}
		found[fmt.Sprint(k)] = k
	}
	for _, at := range slices.Sorted(maps.Keys(found)) {
		kinds = append(kinds, found[at])
	}
	return kinds[:min(len(kinds), maxKinds)], len(kinds) > maxKinds
}

// Elsewhere returns the gateways of other replicas that live, one of each kind.
func Elsewhere(heard map[string]Heard, own string, now time.Time) (out []model.Proxy) {
	for _, name := range live(heard, own, now) {
		for _, k := range heard[name].Kinds {
			out = append(out, model.Proxy{Namespace: k.Namespace, Labels: k.Labels, Gateway: true})
		}
	}
	return out
}

// Lacking returns what keeps a question from being asked: gateways, or replicas, that have not said that they answer it. serving is how many
// gateways of this replica serve the host, and behind those that do not answer yet.
func Lacking(heard map[string]Heard, own string, now time.Time, q Question, serving int, behind []string) (out []string) {
	out = slices.Clone(behind)
	for _, name := range live(heard, own, now) {
		n, all := heard[name].Shown[q.Token]
		if serving += n; !all {
			out = append(out, "gateways of the replica "+name)
		}
	}
	if len(out) == 0 && serving == 0 {
		return []string{"none that serves " + q.Host + " at port 80 is connected and has accepted it"}
	}
	return out
}

// Reports returns the reports to store, with this replica's; nil while nothing is to be written. What others have stopped to say is removed.
func Reports(stored map[string]Report, heard map[string]Heard, own string, says Report, now time.Time) map[string]Report {
	last, is := stored[own]
	if late := now.Sub(last.At); is && late >= 0 && late < ReportAgain && last.same(says) {
		return nil
	}
	out := map[string]Report{}
	for name, r := range stored {
		if now.Sub(heard[name].Since) < reportStays {
			out[name] = r
		}
	}
	says.At = now.UTC()
	out[own] = says
	return out
}

func (r Report) same(o Report) bool {
	return maps.Equal(r.Shown, o.Shown) && slices.EqualFunc(r.Kinds, o.Kinds, func(a, b Kind) bool {
		return a.Namespace == b.Namespace && maps.Equal(a.Labels, b.Labels)
	})
}

// Errors of what replicas store.
var (
	ErrTaken   = errors.New("another replica has written it meanwhile")
	ErrFollows = errors.New("another replica asks, this one does not lead")
)

// MaxRecords bounds what replicas store; see Excess.
const MaxRecords = 2 * MaxSets

// Broken is a stored record that cannot be read, since a time: nobody knows what it was about.
type Broken struct {
	Err error
	At  time.Time
}

// Follow returns the record of a set, of what this replica knows and what is stored, nil for nothing. mine is whether this replica knows better: it
// has a try of the set under way, or could not write down the end of one. keep is whether there is a record at all, and write whether what this
// replica knows is to be stored, if it leads: also what was deleted by hand.
func Follow(known Record, stored *Record, mine bool, now time.Time) (next Record, keep, write bool) {
	switch {
	case mine:
		return known, true, true
	case stored != nil:
		return *stored, true, false
	case known.Old(now) && known.Order == "":
		return Record{}, false, false
	}
	return known, true, len(known.Chain) > 0 || known.Order != ""
}

// Excess returns the keys of records to forget, so that most are left: none of those that are wanted, and first those whose certificate ends first.
func Excess(records map[string]Record, wanted []Set, most int) (out []string) {
	if len(records) <= most {
		return nil
	}
	for key, r := range records {
		if !slices.ContainsFunc(wanted, r.Of) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	sort.SliceStable(out, func(i, j int) bool { return records[out[i]].NotAfter.Before(records[out[j]].NotAfter) })
	return out[:min(len(out), len(records)-most)]
}

// Asks returns the questions that gateways of a namespace answer: those of orders that are under way. wanted are the sets that gateways need;
// nil while that is not known yet.
func Asks(records map[string]Record, wanted []Set) map[string][]Question {
	out := map[string][]Question{}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if r := records[key]; r.Order != "" && (wanted == nil || slices.ContainsFunc(wanted, r.Of)) {
			out[r.Namespace] = append(out[r.Namespace], r.Questions...)
		}
	}
	return out
}
