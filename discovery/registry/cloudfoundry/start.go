package cloudfoundry

import (
	"encoding/json"
	"strings"
	"time"
)

// startMessage requests that publishers announce everything, and sets how often they do so from then on. It is the body
// of router.start, and the answer to router.greet.
func startMessage(id string, hosts []string, interval, threshold time.Duration) []byte {
	data, err := json.Marshal(struct {
		ID        string   `json:"id"`
		Hosts     []string `json:"hosts"`
		Interval  int      `json:"minimumRegisterIntervalInSeconds"`
		Threshold int      `json:"pruneThresholdInSeconds"`
	}{id, hosts, max(1, int(interval.Seconds())), max(1, int(threshold.Seconds()))})
	if err != nil {
		panic(err) // values of these types can always be encoded
	}
	return data
}

// mayAnswer reports whether the reply subject of a greeting is allowed. No other client may make this program publish
// on subjects that other routers, or the broker itself, read.
func mayAnswer(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "router.") && !strings.HasPrefix(reply, "$")
}
