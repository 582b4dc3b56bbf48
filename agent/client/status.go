package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/status"
)

// Status is the part of the document of /status that is shown.
type Status struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
	agent.Status
	Epochs    []Epoch        `json:"epochs"` // instead of agent.Status's
	Health    health.Verdict `json:"health"`
	Readiness struct {
		Since *time.Time `json:"since"` // of the current readiness; nil before it was first computed
	} `json:"readiness"`
	LastFailure  *status.Exit         `json:"last_failure"` // nil for none
	Certificates []status.Certificate `json:"certificates"`
	Recording    *status.Recording    `json:"recording"` // nil where nothing is to be remembered
}

// Epoch is one Envoy process.
type Epoch struct {
	agent.EpochStatus
	Pid int `json:"pid"` // 0 before its fork
}

// Status returns the agent's status, and the document unchanged.
func (c *Client) Status(ctx context.Context) (Status, []byte, error) {
	a, err := c.ask(ctx, http.MethodGet, "/status")
	if err != nil {
		return Status{}, nil, err
	}
	var s Status
	if err := json.Unmarshal(a.body, &s); err != nil || a.code != http.StatusOK || s.Node == "" {
		return Status{}, nil, fmt.Errorf("%s is no agent (is %s right?): %w", c.Base.Host, c.Setting, a)
	}
	return s, a.body, nil
}
