package cloudfoundry

import (
	"encoding/json"
	"strings"
	"time"
)

// startMessage asks publishers to announce everything, and how often to do it from then on. It is the body of router.start, and the
// answer to router.greet.
func startMessage(id string, hosts []string, interval, threshold time.Duration) []byte {
	data, err := json.Marshal(struct {
		ID        string   `json:"id"`
		Hosts     []string `json:"hosts"`
		Interval  int      `json:"minimumRegisterIntervalInSeconds"`
		Threshold int      `json:"pruneThresholdInSeconds"`
	}{id, hosts, max(1, int(interval.Seconds())), max(1, int(threshold.Seconds()))})
	if err != nil {
		panic(err) // of these types there is none
	}
	return data
}

// mayAnswer reports whether a greeting names a subject to answer at. A stranger must not make this program publish what other
// routers listen to, or the broker itself.
func mayAnswer(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "router.") && !strings.HasPrefix(reply, "$")
}
