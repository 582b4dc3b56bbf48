package discovery

import (
	"fmt"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// fewest is how many hosts, or endpoints, must go at once to be a mass.
const fewest = 3

// tally is how many hosts or endpoints a source has, and how many of them go at once.
type tally struct {
	what      string // hosts or endpoints
	lost, had int
}

// mass reports whether so many go that it may be an accident: more than half, and at least three.
func (t tally) mass() bool { return t.lost >= fewest && 2*t.lost > t.had }

func (t tally) String() string { return fmt.Sprintf("%d of %d %s", t.lost, t.had, t.what) }

// hostsOf counts the hosts of a source of which some groups go: each host with whether a group that stays has it.
func hostsOf(stays map[string]bool) tally {
	t := tally{what: "hosts", had: len(stays)}
	for _, stay := range stays {
		if !stay {
			t.lost++
		}
	}
	return t
}

// endpointsLost returns how many endpoints of a group its next content lacks.
func endpointsLost(before, now model.Group) (n int) {
	has := map[string]bool{}
	for _, service := range now.Services {
		for i := range service.Endpoints {
			has[service.Host+" "+service.Endpoints[i].Address] = true
		}
	}
	for _, service := range before.Services {
		for i := range service.Endpoints {
			if !has[service.Host+" "+service.Endpoints[i].Address] {
				n++
			}
		}
	}
	return n
}

func endpoints(g model.Group) (n int) {
	for _, service := range g.Services {
		n += len(service.Endpoints)
	}
	return n
}
