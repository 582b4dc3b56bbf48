package truth

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/pilotlight/pilotlight/discovery/explain"
)

// tally counts what happened to requests of which explain says the same.
type tally struct {
	road      explain.Road
	requests  int
	outcomes  []int
	endpoints []map[string]int
	ambiguous bool // an outcome cannot be told from another one
}

type tallies map[string]*tally

// add counts a request, and reports whether what happened to it is one of the outcomes.
func (all tallies) add(e *Exchange, road explain.Road, did Did) bool {
	alike := slices.Clone(road.Outcomes)
	for i := range alike {
		alike[i].Path, alike[i].Host = "", ""
	}
	key, err := json.Marshal(alike)
	if err != nil {
		return false
	}
	of := all[string(key)]
	if of == nil {
		of = &tally{road: road, outcomes: make([]int, len(road.Outcomes))}
		for range road.Outcomes {
			of.endpoints = append(of.endpoints, map[string]int{})
		}
		all[string(key)] = of
	}
	of.requests++
	held := 0
	for i, o := range road.Outcomes {
		if e.holds(o, did) {
			held++
			of.outcomes[i]++
			of.endpoints[i][did.Upstream]++
		}
	}
	of.ambiguous = of.ambiguous || held > 1
	return held > 0
}

// unlikely is how seldom a true answer may be called wrong.
const unlikely = 1e-9

// tooWide returns the outcomes and endpoints that requests should have met, and did not, and shares that are others.
func (all tallies) tooWide() (faults []string) {
	for _, of := range all {
		n := float64(of.requests)
		for i, o := range of.road.Outcomes {
			if missed := math.Pow(1-o.Share, n); of.outcomes[i] == 0 && missed < unlikely {
				faults = append(faults, fmt.Sprintf("none of %d requests met outcome %d of\n%s", of.requests, i, of.road.Text()))
			}
			if off := math.Abs(float64(of.outcomes[i]) - n*o.Share); !of.ambiguous && off > 6*math.Sqrt(n*o.Share*(1-o.Share))+1 {
				faults = append(faults, fmt.Sprintf("%d of %d requests met outcome %d of\n%s", of.outcomes[i], of.requests, i, of.road.Text()))
			}
			each := o.Share / float64(4*max(len(o.Endpoints), 1)) // endpoints may have other weights
			for _, endpoint := range o.Endpoints {
				if o.Status == 0 && !o.Closed && !o.Resolved && of.endpoints[i][endpoint.Address] == 0 && math.Pow(1-each, n) < unlikely {
					faults = append(faults, fmt.Sprintf("none of %d requests met the endpoint %s of outcome %d of\n%s", of.requests, endpoint.Address, i, of.road.Text()))
				}
			}
		}
	}
	return faults
}
