package truth

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Logged are the fields of MeshConfig by which Envoys write the access log that Read reads.
const Logged = `
accessLogFile: /dev/stdout
accessLogFormat: "` + Line + `"
`

// Line is the format of a line of that log.
const Line = `truth %REQ(X-NUMBER)% %DOWNSTREAM_REMOTE_ADDRESS%>%DOWNSTREAM_LOCAL_ADDRESS% %RESPONSE_CODE% %RESPONSE_FLAGS% %UPSTREAM_CLUSTER_RAW% %UPSTREAM_HOST% %UPSTREAM_REQUEST_ATTEMPT_COUNT% %DURATION% %START_TIME(%s%3f)%\n`

// Did is what the real Envoy did with a request or a connection, by its access log.
type Did struct {
	Status            int // 0 of a connection
	flags             []string
	Cluster, Upstream string // "-" for none
	tries             int
	took              time.Duration
	began             time.Time // to the millisecond
}

// Read reads the access log. Its keys are the numbers of requests, and both addresses of connections that are not HTTP: of those with the same
// addresses, since a port was used again, it has the one that began last.
func Read(log string) map[string]Did {
	out := map[string]Did{}
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 10 || fields[0] != "truth" || strings.HasPrefix(strings.ToLower(fields[5]), "inbound") {
			continue // the last is of a call of the workload to itself, as it comes in
		}
		key := fields[1]
		if key == "-" {
			key = fields[2]
		}
		did := Did{Cluster: fields[5], Upstream: fields[6]}
		did.Status, _ = strconv.Atoi(fields[3])
		did.tries, _ = strconv.Atoi(fields[7])
		if ms, err := strconv.Atoi(fields[8]); err == nil {
			did.took = time.Duration(ms) * time.Millisecond
		}
		if ms, err := strconv.ParseInt(fields[9], 10, 64); err == nil {
			did.began = time.UnixMilli(ms)
		}
		if did.began.Before(out[key].began) {
			continue
		}
		if fields[4] != "-" {
			did.flags = strings.Split(fields[4], ",")
		}
		out[key] = did
	}
	return out
}

// Exchange is a request that was sent, and what came back.
type Exchange struct {
	explain.Question
	Number int           // by which the access log names it
	Delay  time.Duration // of the server's answer
	Status int           // of the server's answer; 0 for 200

	Ends   string    // both addresses of the connection
	began  time.Time // the connection
	Got    lab.Answer
	Closed error // why there was no answer

	waited time.Duration // for which a process of the machine waited for a processor or a disk meanwhile
}

// did finds the exchange in the access log.
func (e *Exchange) did(all map[string]Did) (did Did, found bool) {
	if did, found = all[fmt.Sprint(e.Number)]; found {
		return did, true
	}
	if did, found = all[e.Ends]; found && did.began.Before(e.began.Truncate(time.Millisecond)) {
		return Did{}, false // of an earlier connection from the same port
	}
	return did, found
}

// Kind is the kind of what happened.
func (did Did) Kind() string {
	return fmt.Sprint(did.Status, " ", strings.Join(did.flags, ","), " ", did.Cluster)
}

// Flagged reports whether Envoy's flags are the one that an outcome has. Envoy adds URX where it has tried in vain as often as it may, DI where it has
// delayed a request.
func (did Did) Flagged(flag string) bool {
	rest := slices.DeleteFunc(slices.Clone(did.flags), func(f string) bool { return f == "URX" || f == "DI" })
	if flag == "" {
		return len(rest) == 0
	}
	return slices.Equal(rest, []string{flag})
}
