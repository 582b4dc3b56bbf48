package truth

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
)

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
