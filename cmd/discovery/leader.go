package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// lease is the Lease that one of several replicas holds while it does the work that only one replica may do.
type lease struct{ namespace, name string }

func (s *settings) leader() []setting.Setting {
	return []setting.Setting{
		{
			Name: "writeStatus", Default: "false", Kind: setting.Bool(&s.cluster.writes),
			Help: "write what is wrong with an Istio object of --kubernetesConfig into its status, as the condition PilotlightAccepted, and as an Event; one of all " +
				"replicas does, the one that holds the Lease",
		},
		{
			Name: "leaseNamespace", Kind: setting.Text(&s.cluster.lease.namespace, "a namespace"),
			Help: "namespace of the Lease by which one of all replicas leads; if empty, that of this Pod, and istio-system where this is none",
		},
		{Name: "leaseName", Default: "pilotlight-discovery", Kind: setting.Text(&s.cluster.lease.name, "a name"), Help: "name of that Lease, which is made if it is not there"},
	}
}

// leaderFaults returns the faults of these settings.
func (c cluster) leaderFaults() (faults []error) {
	if c.writes && !c.config {
		faults = append(faults, errors.New("--writeStatus is given without --kubernetesConfig, whose objects it is about"))
	}
	return faults
}

// replica returns a name for this run of this replica: the Pod's name, which is its host name, and a random part, so
// that a later run has another identity.
func replica() string {
	host, _ := os.Hostname() // without it, the random part is still unique
	return cmp.Or(os.Getenv("POD_NAME"), host, "discovery") + "_" + rand.Text()[:8]
}
