package proxy

import (
	"log/slog"
	"os"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// Config is what a proxy is given. It is not changed.
type Config struct {
	Environ      []string // of this process; Envoy gets it too
	Identity     identity.Given
	TrustDomain  string // of the mesh
	Labels       Input  // of the pod, by the downward API; that which is missing and not Given is no fault
	Annotations  Input  // alike
	AwaitAddress bool   // give a host time to get an address

	Dir    Input // for the bootstrap, sockets and flight records
	Binary Input // Envoy
	Source Source

	// Params are the given part of what the bootstrap depends on. New adds Node, Metadata, SecretsSocket, and where they are not
	// given MemoryLimit and the SAN of discovery.
	Params bootstrap.Params

	Envoy       envoy.Options // Concurrency 0 is worked out
	Supervision agent.Settings

	Certificates cert.Sets // the first one is the workload's own
	NewEpochs    bool      // each new certificate needs a new epoch: Envoy is not asked whether it has taken it by itself

	Ports status.Ports
	Log   *slog.Logger
}

// Input is a path, and how a message names it.
type Input struct {
	Name  string // as it was given: "--labelsFile", "PILOTLIGHT_LABELS_FILE"
	Path  string // empty for none
	Given bool   // it is not the default
}

// Process is what a proxy takes from the process that it runs in.
type Process struct {
	Fork            func(func())     // runs its argument on the main thread
	Stop            func()           // does what the first signal to stop does; again it does nothing
	Hurry           <-chan struct{}  // each signal to stop after the first
	HangUp          <-chan os.Signal // each SIGHUP
	Stderr, Printed *lossy.Writer    // for what the agent says, and what Envoy prints to stdout
}
