package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
)

// Status is the document of /status, as far as it is shown.
type Status struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
	agent.Status
	Drained      bool           `json:"drained"` // by hand
	Epochs       []Epoch        `json:"epochs"`  // instead of agent.Status's
	Health       health.Verdict `json:"health"`
	LastFailure  *Exit          `json:"last_failure"` // nil for none
	Certificates []Certificate  `json:"certificates"`
}

// Epoch is one Envoy process.
type Epoch struct {
	agent.EpochStatus
	Pid int `json:"pid"` // 0 before its fork
}

// Exit is the end of an Envoy.
type Exit struct {
	At    time.Time `json:"at"`
	Epoch int       `json:"epoch"`
	Exit  string    `json:"exit"` // "exit status 1: cannot bind"
}

// Certificate is a file of the workload's certificates.
type Certificate struct {
	Path     string     `json:"path"`
	Serial   string     `json:"serial"`    // hex
	NotAfter *time.Time `json:"not_after"` // nil where there is a fault
	Fault    string     `json:"fault"`
}

// Status returns what the agent tells about itself, and the document as it was.
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
