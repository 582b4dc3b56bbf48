package content

// Each cache is bounded, so that hostile subscriptions cost little more than their own streams.
const (
	maxShared  = 1 << 13
	maxChosen  = 1 << 19 // names, in all selections and in the values made from them
	maxMerged  = 1 << 18 // names, of all subscriptions that grew
	maxDivided = 1 << 15 // kB, of route configurations with a refused part
)

// Share computes results from sets that streams need, each once for all streams: it is pure functions with a cache. It
// lives as long as a generation; a stream must not hold it longer than that.
type Share struct {
	Work *Work // the cost of its generation

	comparer
	merger
	chooser
	uniter
	finder
	divider
	resumer
	answerer
}

// NewShare returns a share without results.
func NewShare(in *Interner) *Share {
	sh := &Share{Work: &Work{}}
	compare, merge := &sh.comparer, &sh.merger
	*compare = comparer{work: sh.Work}
	compare.changes.limit, compare.lessened.limit = maxChosen, maxChosen
	*merge = merger{Interner: in, work: sh.Work}
	merge.merged.limit, merge.lists.limit = maxMerged, maxMerged
	sh.chooser.comparer = compare
	sh.chooser.selections.limit, sh.chooser.kept.limit = maxChosen, maxChosen
	sh.uniter.comparer, sh.uniter.merger = compare, merge
	sh.uniter.unions.limit, sh.uniter.changed.limit, sh.uniter.missing.limit = maxShared, maxShared, maxChosen
	sh.finder.comparer, sh.finder.merger = compare, merge
	sh.finder.additions.limit, sh.finder.found.limit = maxShared, maxShared
	sh.divider.divided.limit = maxDivided
	sh.resumer.resumed.limit = maxChosen
	sh.answerer.comparer = compare
	sh.answerer.answered.limit = maxChosen
	return sh
}
