package truth

import (
	"fmt"
	"slices"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Asked answers questions about the requests of a proxy.
type Asked func(explain.Question) (explain.Road, error)

// once asks each question once.
func once(ask Asked) Asked {
	known := map[string]explain.Road{}
	return func(q explain.Question) (explain.Road, error) {
		key := q.Values().Encode()
		if road, found := known[key]; found {
			return road, nil
		}
		road, err := ask(q)
		known[key] = road
		return road, err
	}
}

// Comparison is what came of comparing requests.
type Comparison struct {
	Kinds  map[string]int // of ends, and how many requests had each
	Things int            // that explain said
	Faults []string
}

// Compare sends requests to a proxy, whose log it is given, and asks explain about each. Every request must end in one of the outcomes, no outcome and no
// endpoint may be one that no request meets, and each step of a road must say what made it.
func Compare(log func() string, ask Asked, by Way, atOnce int, all []*Exchange) (Comparison, error) {
	send(by, atOnce, all)
	roads := make([]explain.Road, len(all))
	ask = once(ask)
	for i, e := range all {
		var err error
		if roads[i], err = ask(e.Question); err != nil {
			return Comparison{}, err
		}
	}
	done, err := logged(log, all, roads)
	if err != nil {
		return Comparison{}, err
	}
	out, met := Comparison{Kinds: map[string]int{}}, tallies{}
	for i, e := range all {
		road := roads[i]
		did, _ := e.did(done)
		out.Kinds[did.Kind()]++
		for _, s := range road.Steps {
			if len(s.Origins) == 0 && s.Unmade == "" {
				out.Faults = append(out.Faults, fmt.Sprintf("nobody made the step %s %s of\n%s", s.Kind, s.Name, road.Text()))
			}
		}
		if !met.add(e, road, did) {
			out.Faults = append(out.Faults, fmt.Sprintf(
				"TCP %t, TLS %t: %s %s%s at %q %q, an answer of %d after %v: Envoy did %+v, the client had %d or %v, the server got %s of %s; explain says\n%s",
				e.TCP, e.TLS, e.Method, e.To, e.Path, e.Address, e.Header, e.Status, e.Delay, did, e.Got.Status, e.Closed, e.Got.Echo.Path, e.Got.Echo.Host, road.Text()))
		}
	}
	out.Things, out.Faults = len(met), append(out.Faults, met.tooWide()...)
	return out, nil
}

// logged waits until the access log of a proxy has what it did with requests.
func logged(log func() string, all []*Exchange, roads []explain.Road) (done map[string]Did, err error) {
	err = lab.Eventually(lab.StopLimit, func() error {
		done = Read(log())
		for i, e := range all {
			if _, found := e.did(done); !found && (e.Closed == nil || slices.ContainsFunc(roads[i].Outcomes, mustLog)) {
				return fmt.Errorf("the access log of %d requests lacks %+v of which explain says\n%s", len(all), *e, roads[i].Text())
			}
		}
		return nil
	})
	return done, err
}

// mustLog reports whether a request with this end is in the access log. Not every listener logs what it closes, or a handshake that fails.
func mustLog(o explain.Outcome) bool { return !o.Closed && !forCertificate(o) }
