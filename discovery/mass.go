package discovery

import (
	"github.com/pilotlight/pilotlight/discovery/model"
)

// hostsOf counts the hosts of a source of which some groups go: each host with whether a group that stays has it.
func hostsOf(stays map[string]bool) model.Tally {
	t := model.Tally{Had: len(stays)}
	for _, stay := range stays {
		if !stay {
			t.Lost++
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
