package acme

import (
	"errors"
	"maps"
	"slices"
	"sort"
	"time"
)

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
