package consul

import (
	"slices"
	"strings"
)

// The parts of Consul's answers that are read, by the names of its HTTP API. Others are skipped as the answer is read.

// serviceEntry is an instance with its node and its checks.
type serviceEntry struct {
	Node    *nodeEntry
	Service *agentService
	Checks  healthChecks
}

type nodeEntry struct {
	Node       string
	Address    string
	Datacenter string
	Meta       map[string]string
	Locality   *locality
}

type agentService struct {
	Kind        string
	ID          string
	Service     string
	Tags        []string
	Meta        map[string]string
	Port        int
	Ports       []servicePort // of later versions; none for the one in Port
	Address     string
	Weights     agentWeights
	ModifyIndex uint64
	Locality    *locality
	Connect     *struct{ Native bool }
}

type servicePort struct {
	Name    string
	Port    int
	Default bool
}

type agentWeights struct{ Passing, Warning int }

type locality struct{ Region, Zone string }

type healthCheck struct {
	Node        string
	CheckID     string
	Status      string
	ServiceID   string
	ServiceName string
}

type healthChecks []*healthCheck

// Words of Consul.
const (
	statusPassing     = "passing"
	statusWarning     = "warning"
	statusCritical    = "critical"
	statusMaintenance = "maintenance" // of all checks together

	kindProxy = "connect-proxy"
)

// Checks with these ids take a node, or an instance, out of service.
const (
	nodeMaintenance    = "_node_maintenance"
	serviceMaintenance = "_service_maintenance:"
)

// status returns the status of all checks: maintenance, else the worst one; "" if one of them is not known.
func (h healthChecks) status() string {
	found := statusPassing
	maintained := false
	for _, c := range h {
		switch {
		case c == nil:
		case c.CheckID == nodeMaintenance || strings.HasPrefix(c.CheckID, serviceMaintenance):
			maintained = true
		case !slices.Contains([]string{statusPassing, statusWarning, statusCritical}, c.Status):
			return ""
		case c.Status == statusCritical || c.Status == statusWarning && found == statusPassing:
			found = c.Status
		}
	}
	if maintained {
		return statusMaintenance
	}
	return found
}
