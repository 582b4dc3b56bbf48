package main

import (
	"cmp"
	"crypto/rand"
	"os"

	"github.com/pilotlight/pilotlight/internal/setting"
)

func (s *settings) leader() []setting.Setting {
	return []setting.Setting{
		{
			Name: "writeStatus", Default: "false", Kind: setting.Bool(&s.Cluster.Statuses),
			Help: "write what is wrong with an Istio object of --kubernetesConfig into its status, as the condition PilotlightAccepted, and as an Event; one of all " +
				"replicas does, the one that holds the Lease. With --registries Kubernetes each replica writes what is wrong with a proxy that is connected to it as an Event of its Pod",
		},
		{
			Name: "leaseNamespace", Kind: setting.Text(&s.Cluster.Lease.Namespace, "a namespace"),
			Help: "namespace of the Lease by which one of all replicas leads; if empty, that of this Pod, and istio-system where this is none",
		},
		{Name: "leaseName", Default: "pilotlight-discovery", Kind: setting.Text(&s.Cluster.Lease.Name, "a name"), Help: "name of that Lease, which is made if it is not there"},
	}
}

// replica returns a name for this run of this replica: the Pod's name, which is its host name, and a random part, so
// that a later run has another identity.
func replica() string {
	host, _ := os.Hostname() // without it, the random part is still unique
	return cmp.Or(os.Getenv("POD_NAME"), host, "discovery") + "_" + rand.Text()[:8]
}
