package truth

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

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

// clock is by how much Envoy's timers may be early on a machine at rest. A timer begins with the time at which Envoy's loop last looked
// at the clock: when Envoy has waited for a processor since, the timer is early by that too.
const clock = 20 * time.Millisecond

// lasted reports whether a request took at least as long as one of Envoy's timers.
func (e *Exchange) lasted(timer time.Duration, did Did) bool { return did.took >= timer-clock-e.waited }

// delayed reports whether a request waited as an outcome says.
func (e *Exchange) delayed(by *explain.Delay, did Did) bool {
	if !slices.Contains(did.flags, "DI") {
		return by == nil || by.Share < 1
	}
	return by != nil && e.lasted(time.Duration(by.Time), did)
}

// holds reports whether what happened is what an outcome says.
func (e *Exchange) holds(o explain.Outcome, did Did) bool {
	switch {
	case o.Closed && o.Flag == "" && o.Cluster != "": // by the server's proxy, to which the bytes got or not
		return e.Closed != nil && o.Cluster == did.Cluster && Reaches(o, did.Upstream) && (did.Flagged("") || did.Flagged("UR") || did.Flagged("UF"))
	case o.Closed:
		return e.Closed != nil && (did.Cluster == "" || did.Flagged(o.Flag)) // not every listener logs what it closes
	case e.Closed != nil && e.TLS && forCertificate(o):
		return true
	case !e.delayed(o.Delay, did):
		return false
	case o.Status != 0 && o.By != "" && did.Status == 0: // the client's proxy passes bytes on, of which the server's makes a request
		return o.Status == e.Got.Status && o.Cluster == did.Cluster && Reaches(o, did.Upstream)
	case o.Status != 0:
		return o.Status == did.Status && (did.Status != http.StatusOK || o.GRPC == e.Got.Header.Get("Grpc-Status")) && did.Flagged(o.Flag) && (o.By != "" || did.Upstream == "-" || o.Cluster != "")
	case e.Closed != nil && o.Path != "": // bytes may have been for a server that answers none
		return false
	case o.Cluster == "" || o.Cluster != did.Cluster || !Reaches(o, did.Upstream):
		return false
	}
	if o.Path == "" {
		return did.Flagged("") || did.Flagged("UR") // the server has closed a connection that it does not understand
	}
	if did.Flagged("UPE") {
		return true // the server speaks no HTTP
	}
	return e.limited(o, did) && (e.Got.Echo.Backend == "" || e.Got.Echo.Path == o.Path && e.Got.Echo.Host == o.Host)
}

// forCertificate reports whether a client without a certificate may be refused for that.
func forCertificate(o explain.Outcome) bool {
	return slices.ContainsFunc(o.Unless, func(by string) bool { return strings.Contains(by, "certificate") })
}

// Reaches reports whether an outcome has an endpoint. Of names that Envoy resolves only the port is known.
func Reaches(o explain.Outcome, upstream string) bool {
	port := func(address string) string { _, port, _ := net.SplitHostPort(address); return port }
	return o.Resolved && len(o.Endpoints) == 0 || slices.ContainsFunc(o.Endpoints, func(e explain.Endpoint) bool {
		return e.Address == upstream || o.Resolved && port(e.Address) == port(upstream)
	})
}

// limited reports whether Envoy gave up exactly where the time-out of an outcome is below the server's delay, and tried as often as it says.
func (e *Exchange) limited(o explain.Outcome, did Did) bool {
	var retries explain.Retries
	if o.Retries != nil {
		retries = *o.Retries
	}
	limit := time.Duration(o.Timeout)
	if each := time.Duration(retries.PerTry); each > 0 && (limit == 0 || each < limit) {
		limit = each
	}
	if slices.Contains(did.flags, "UT") {
		return limit > 0 && e.lasted(limit, did) && (did.Status == 504 || did.Status == 200 && e.Got.Header.Get("Grpc-Status") != "") && did.Flagged("UT")
	}
	tries := 1
	if e.Status != 0 && again(retries, e.Status) {
		tries += int(retries.Attempts)
	}
	return !(limit > 0 && e.Delay > limit) && did.Flagged("") && (e.Status == 0 || did.tries == tries) && (did.Status == 0 || e.Status == 0 || e.Status == did.Status)
}

// again reports whether a status of the server is one for which a request is sent again.
func again(r explain.Retries, status int) bool {
	for on := range strings.SplitSeq(r.On, ",") {
		if on == "5xx" && status >= 500 || on == "gateway-error" && status >= 502 && status <= 504 || on == "retriable-status-codes" && slices.Contains(r.Statuses, uint32(status)) {
			return true
		}
	}
	return false
}

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

// Settled waits until a proxy has answered for everything that discovery, whose pages get returns, has pushed.
func Settled(get func(path string) (string, error), node string) error {
	page := func(path string, into any) error {
		text, err := get(path)
		if err == nil {
			err = json.Unmarshal([]byte(text), into)
		}
		return err
	}
	return lab.Eventually(lab.StopLimit, func() error {
		var pushes, clients []struct {
			Node       string
			Generation int64
		}
		if err := page("/debug/push_status", &pushes); err != nil {
			return err
		}
		if err := page("/debug/adsz", &clients); err != nil {
			return err
		}
		newest := int64(0)
		for _, push := range pushes {
			newest = max(newest, push.Generation)
		}
		for _, c := range clients {
			if c.Node == node && c.Generation >= newest {
				return nil
			}
		}
		return fmt.Errorf("%s has not answered for generation %d: %+v", node, newest, clients)
	})
}
