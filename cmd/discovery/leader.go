package main

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// lease is what one of several replicas holds while it does what must be done once.
type lease struct{ namespace, name string }

func (s *settings) leader() []setting.Setting {
	return []setting.Setting{
		{
			Name: "leaseNamespace", Kind: setting.Text(&s.cluster.lease.namespace, "a namespace"),
			Help: "namespace of the Lease by which one of all replicas leads; if empty, that of this Pod, and istio-system where this is none",
		},
		{Name: "leaseName", Default: "pilotlight-discovery", Kind: setting.Text(&s.cluster.lease.name, "a name"), Help: "name of that Lease, which is made if it is not there"},
	}
}

// identity names this run of this replica: a Pod by its name, which is its host's name. A run after it is another one.
func identity() string {
	host, _ := os.Hostname() // without one, the rest tells it from the others
	return cmp.Or(os.Getenv("POD_NAME"), host, "discovery") + "_" + rand.Text()[:8]
}

func (c cluster) election(identity string, log *slog.Logger) *kube.Election {
	namespace := c.lease.namespace
	if namespace == "" {
		own, _ := os.ReadFile(ownNamespace) // there is none outside of a Pod
		namespace = cmp.Or(strings.TrimSpace(string(own)), "istio-system")
	}
	return &kube.Election{Connect: c.connect, Namespace: namespace, Name: c.lease.name, Identity: identity, Log: log}
}
