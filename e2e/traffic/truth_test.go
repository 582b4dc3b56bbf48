package traffic

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// logged are the fields of MeshConfig by which Envoys write the access log that truths reads.
const logged = `
accessLogFile: /dev/stdout
accessLogFormat: "` + truthLine + `"
`

const truthLine = `truth %REQ(X-NUMBER)% %DOWNSTREAM_REMOTE_ADDRESS%>%DOWNSTREAM_LOCAL_ADDRESS% %RESPONSE_CODE% %RESPONSE_FLAGS% %UPSTREAM_CLUSTER_RAW% %UPSTREAM_HOST% %UPSTREAM_REQUEST_ATTEMPT_COUNT% %DURATION%\n`

// truth is what the real Envoy did with a request or a connection, by its access log.
type truth struct {
	status            int // 0 of a connection
	flags             []string
	cluster, upstream string // "-" for none
	tries             int
	took              time.Duration
}

// truths reads the access log. Its keys are the numbers of requests, and both addresses of connections that are not HTTP.
func truths(log string) map[string]truth {
	out := map[string]truth{}
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 9 || fields[0] != "truth" {
			continue
		}
		key := fields[1]
		if key == "-" {
			key = fields[2]
		}
		did := truth{cluster: fields[5], upstream: fields[6]}
		did.status, _ = strconv.Atoi(fields[3])
		did.tries, _ = strconv.Atoi(fields[7])
		if ms, err := strconv.Atoi(fields[8]); err == nil {
			did.took = time.Duration(ms) * time.Millisecond
		}
		if fields[4] != "-" {
			did.flags = strings.Split(fields[4], ",")
		}
		out[key] = did
	}
	return out
}

// exchange is a request that was sent, and what came back.
type exchange struct {
	explain.Question
	number int
	delay  time.Duration // of the server's answer
	status int           // of the server's answer; 0 for 200

	ends   string // both addresses of the connection
	got    lab.Answer
	closed error // why there was no answer
}

// key finds the exchange in the access log.
func (e *exchange) key(all map[string]truth) string {
	if number := fmt.Sprint(e.number); all[number].cluster != "" {
		return number
	}
	return e.ends
}

// kind is the kind of what happened.
func (did truth) kind() string {
	return fmt.Sprint(did.status, " ", strings.Join(did.flags, ","), " ", did.cluster)
}

// flagged reports whether Envoy's flags are the one that an outcome has. Envoy adds URX where it has tried in vain as often as it may, DI where it has
// delayed a request.
func (did truth) flagged(flag string) bool {
	rest := slices.DeleteFunc(slices.Clone(did.flags), func(f string) bool { return f == "URX" || f == "DI" })
	if flag == "" {
		return len(rest) == 0
	}
	return slices.Equal(rest, []string{flag})
}

// clock is by how much Envoy's timers may be early: they begin with its loop's idea of now.
const clock = 20 * time.Millisecond

// delayed reports whether a request waited as an outcome says.
func (did truth) delayed(by *explain.Delay) bool {
	if !slices.Contains(did.flags, "DI") {
		return by == nil || by.Share < 1
	}
	return by != nil && did.took >= time.Duration(by.Time)-clock
}

// holds reports whether what happened is what an outcome says.
func (e *exchange) holds(o explain.Outcome, did truth) bool {
	switch {
	case o.Closed:
		return e.closed != nil && (did.cluster == "" || did.flagged(o.Flag)) // not every listener logs what it closes
	case e.closed != nil && e.TLS && forCertificate(o):
		return true
	case !did.delayed(o.Delay):
		return false
	case o.Status != 0:
		return o.Status == did.status && did.flagged(o.Flag) && (o.By != "" || did.upstream == "-" || o.Cluster != "")
	case e.closed != nil && o.Path != "": // bytes may have been for a server that answers none
		return false
	case o.Cluster == "" || o.Cluster != did.cluster || !reaches(o, did.upstream):
		return false
	}
	if o.Path == "" {
		return did.flagged("") || did.flagged("UR") // the server has closed a connection that it does not understand
	}
	if did.flagged("UPE") {
		return true // the server speaks no HTTP
	}
	return e.limited(o, did) && (e.got.Echo.Backend == "" || e.got.Echo.Path == o.Path && e.got.Echo.Host == o.Host)
}

// forCertificate reports whether a client without a certificate may be refused for that.
func forCertificate(o explain.Outcome) bool {
	return slices.ContainsFunc(o.Unless, func(by string) bool { return strings.Contains(by, "certificate") })
}

// reaches reports whether an outcome has an endpoint. Of names that Envoy resolves only the port is known.
func reaches(o explain.Outcome, upstream string) bool {
	port := func(address string) string { _, port, _ := net.SplitHostPort(address); return port }
	return o.Resolved && len(o.Endpoints) == 0 || slices.ContainsFunc(o.Endpoints, func(e explain.Endpoint) bool {
		return e.Address == upstream || o.Resolved && port(e.Address) == port(upstream)
	})
}

// limited reports whether Envoy gave up exactly where the time-out of an outcome is below the server's delay, and tried as often as it says.
func (e *exchange) limited(o explain.Outcome, did truth) bool {
	var retries explain.Retries
	if o.Retries != nil {
		retries = *o.Retries
	}
	limit := time.Duration(o.Timeout)
	if each := time.Duration(retries.PerTry); each > 0 && (limit == 0 || each < limit) {
		limit = each
	}
	if slices.Contains(did.flags, "UT") {
		return limit > 0 && did.took >= limit-clock && did.status == 504 && did.flagged("UT")
	}
	tries := 1
	if e.status != 0 && again(retries, e.status) {
		tries += int(retries.Attempts)
	}
	return !(limit > 0 && e.delay > limit) && did.flagged("") && (e.status == 0 || did.tries == tries) && (did.status == 0 || e.status == 0 || e.status == did.status)
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
func (all tallies) add(e *exchange, road explain.Road, did truth) bool {
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
			of.endpoints[i][did.upstream]++
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
