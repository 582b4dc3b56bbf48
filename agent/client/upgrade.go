package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/status"
)

// upgradePause is the time between two questions whether another image runs.
const upgradePause = 20 * time.Millisecond

// Upgrade has the agent replace its program by a binary, empty for the one at the path of its own, and waits until that runs. It returns
// the version of the binary.
func (c *Client) Upgrade(ctx context.Context, binary string) (version string, err error) {
	c.Owner = true
	before, err := c.upgrades(ctx)
	if err != nil {
		return "", err
	}
	a, err := c.ask(ctx, http.MethodPost, "/upgrade?binary="+url.QueryEscape(binary))
	switch {
	case err != nil:
		return "", err
	case a.code != http.StatusAccepted:
		return "", errors.New(strings.TrimSpace(string(a.body)))
	}
	for {
		now, err := c.upgrades(ctx)
		switch {
		case err == nil && now.Count > before.Count:
			runs := strings.TrimSpace(string(a.body))
			for _, setting := range now.NotInForce {
				runs += "\nnot in force: " + setting
			}
			return runs, nil
		case err == nil && now.Failure != "" && now.Pending == "":
			return "", fmt.Errorf("the agent goes on as it was: %s", now.Failure)
		case errors.Is(err, ErrNobody): // its sockets stay open during a replacement
			return "", fmt.Errorf("the agent has ended: %w", err)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(upgradePause): // a question during the replacement may have got no answer
		}
	}
}

func (c *Client) upgrades(ctx context.Context) (status.Upgrades, error) {
	a, err := c.ask(ctx, http.MethodGet, "/status")
	if err != nil {
		return status.Upgrades{}, err
	}
	var s struct {
		Upgrades status.Upgrades `json:"upgrades"`
	}
	if err := json.Unmarshal(a.body, &s); err != nil {
		return s.Upgrades, fmt.Errorf("%w: no JSON: %w", a, err)
	}
	return s.Upgrades, nil
}
