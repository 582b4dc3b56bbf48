package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/pilotlight/pilotlight/agent/status"
)

// Why returns why requests failed, as the Envoy that serves counts it.
func (c *Client) Why(ctx context.Context) (status.Why, error) {
	a, err := c.ask(ctx, http.MethodGet, "/why")
	if err != nil {
		return status.Why{}, err
	}
	if a.code != http.StatusOK {
		return status.Why{}, fmt.Errorf("%s: %w", c.Base.Host, a)
	}
	var w status.Why
	if err := json.Unmarshal(a.body, &w); err != nil || w.At.IsZero() {
		return status.Why{}, fmt.Errorf("%s is no agent (is %s right?): %w", c.Base.Host, c.Setting, a)
	}
	return w, nil
}
