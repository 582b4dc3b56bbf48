package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// answer is a complete answer of a server.
type answer struct {
	what   string // the request: "GET /status"
	status string // "503 Service Unavailable"
	code   int
	body   []byte
}

func (a answer) Error() string {
	if text := strings.TrimSpace(string(a.body)); text != "" {
		return fmt.Sprintf("%s: %s: %.300q", a.what, a.status, text)
	}
	return fmt.Sprintf("%s: %s", a.what, a.status)
}

// NotReady is an agent's answer that it is not ready. Its text has a line for each reason.
type NotReady struct {
	Stopping   bool
	Drained    bool               // by command
	Conditions []health.Condition // all, also those that are true
}

func (n *NotReady) Error() string {
	lines := []string{"not ready"}
	if n.Stopping {
		lines = append(lines, "stopping")
	}
	if n.Drained {
		lines = append(lines, "drained")
	}
	for _, c := range n.Conditions {
		if !c.Status {
			lines = append(lines, fmt.Sprintf("%s since %s: %s", c.Type, c.Since.UTC().Format(time.RFC3339), c.Reason))
		}
	}
	if len(lines) == 1 {
		lines = append(lines, "it gives no reason")
	}
	return strings.Join(lines, "\n  ")
}

// Ready returns nil if the agent is ready. Otherwise it returns a *NotReady, an error that wraps ErrNobody, or an error
// that the server is slow or is no agent.
func (c *Client) Ready(ctx context.Context) error {
	a, err := c.ask(ctx, http.MethodGet, "/healthz/ready?verbose")
	if err != nil {
		return err
	}
	ready, err := a.readiness()
	if err != nil {
		return fmt.Errorf("%s is no agent (is %s right?): %w", c.Base.Host, c.Setting, err)
	}
	return ready.blocks()
}

// Answers is Ready for any server and URL: an answer 200 is ready. An answer in the agent's own format is still parsed.
func (c *Client) Answers(ctx context.Context) error {
	a, err := c.ask(ctx, http.MethodGet, c.Base.RequestURI())
	if err != nil || a.code == http.StatusOK {
		return err
	}
	if ready, err := a.readiness(); err == nil {
		return ready.blocks()
	}
	return fmt.Errorf("%s: %w", c.Base.Host, a)
}

// readiness is the document of /healthz/ready?verbose.
type readiness struct {
	Ready      *bool              `json:"ready"`
	Stopping   bool               `json:"stopping"`
	Drained    bool               `json:"drained"`
	Conditions []health.Condition `json:"conditions"`
}

func (a answer) readiness() (readiness, error) {
	var r readiness
	if err := json.Unmarshal(a.body, &r); err != nil || r.Ready == nil || *r.Ready != (a.code == http.StatusOK) {
		return readiness{}, a
	}
	return r, nil
}

func (r readiness) blocks() error {
	if *r.Ready {
		return nil
	}
	return &NotReady{Stopping: r.Stopping, Drained: r.Drained, Conditions: r.Conditions}
}

// Drain takes the agent's proxy out of service, and returns once its Envoy drains.
func (c *Client) Drain(ctx context.Context) error {
	a, err := c.ask(ctx, http.MethodPost, "/drain")
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%s: %w", c.Base.Host, a)
	}
	return err
}

// Quit makes the agent stop, as SIGTERM does, and returns when the agent has accepted the request.
func (c *Client) Quit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	response, err := c.Do(ctx, http.MethodPost, "/quitquitquit", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return nil // an agent that stops may not finish its answer
	}
	a, err := c.read(response)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", c.Base.Host, a)
}

// Patience configures how often and how long to repeat a request.
type Patience struct {
	Interval time.Duration // between two requests; the first ones follow each other more quickly
	Limit    time.Duration // after which no request is sent; 0 for none. The first one is always sent
}

// Until calls ask until it returns nil, and then returns nil. When the limit or ctx ends it returns the last error. It calls
// tell with each error.
func (p Patience) Until(ctx context.Context, ask func(context.Context) error, tell func(error)) error {
	began := time.Now()
	var last error
	for n := 0; ; n++ {
		complaint := ask(ctx)
		switch {
		case complaint == nil:
			return nil
		case last == nil, ctx.Err() == nil: // the error of a request that ctx has canceled says nothing of the server
			tell(complaint)
			last = complaint
		}
		wait := pause(n, p.Interval)
		if p.Limit > 0 {
			left := p.Limit - time.Since(began)
			if left <= 0 {
				return last
			}
			wait = min(wait, left)
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(wait):
		}
	}
}

// firstPause is short compared with the start of a program: most often the next request succeeds.
const firstPause = 10 * time.Millisecond

// pause returns the time to wait after request n, counted from 0: it doubles up to the interval.
func pause(n int, interval time.Duration) time.Duration {
	const enough = 30 // doublings that exceed any interval, and overflow nothing
	return min(interval, firstPause<<min(n, enough))
}
