package explain

import (
	"fmt"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Limits are how long the proxy waits for the answer to a request that it sends on, and how often it tries.
type Limits struct {
	Timeout Duration `json:"timeout,omitempty"` // for all tries together: then 504 (UT), or an error of gRPC; none if 0
	Retries *Retries `json:"retries,omitempty"`
}

// Retries are the tries after the first.
type Retries struct {
	Attempts uint32   `json:"attempts"` // at most
	On       string   `json:"on"`       // Envoy's conditions: "connect-failure,503"
	Statuses []uint32 `json:"statuses,omitempty"`
	PerTry   Duration `json:"perTry,omitempty"` // for each try, the first too; none if 0
}

// Delay is a fault: a share of requests waits before the proxy goes on with it.
type Delay struct {
	Share float64  `json:"share"`
	Time  Duration `json:"time"`
}

// Duration is written as Go does: "1.5s".
type Duration time.Duration

// String returns the duration as it is written.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// envoyTimeout is Envoy's own, of a route that sets none.
const envoyTimeout = Duration(15 * time.Second)

func limitsOf(a *routev3.RouteAction) Limits {
	out := Limits{Timeout: envoyTimeout}
	if a.Timeout != nil {
		out.Timeout = durationOf(a.Timeout)
	}
	if p := a.RetryPolicy; p != nil {
		out.Retries = &Retries{Attempts: 1, On: p.RetryOn, Statuses: p.RetriableStatusCodes, PerTry: durationOf(p.PerTryTimeout)}
		if p.NumRetries != nil {
			out.Retries.Attempts = p.NumRetries.Value
		}
	}
	return out
}

func durationOf(d *durationpb.Duration) Duration { return Duration(d.AsDuration()) }

// text says the limits in parts of a sentence.
func (l Limits) text() []string {
	out := []string{"no timeout", "no retries"}
	if l.Timeout > 0 {
		out[0] = "timeout " + l.Timeout.String()
	}
	if r := l.Retries; r != nil {
		out[1] = fmt.Sprintf("%d retries on %s", r.Attempts, r.On)
		if len(r.Statuses) > 0 {
			out[1] += fmt.Sprintf(" %v", r.Statuses)
		}
		if r.PerTry > 0 {
			out[1] += ", each try " + r.PerTry.String()
		}
	}
	return out
}
