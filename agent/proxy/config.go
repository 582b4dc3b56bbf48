package proxy

import (
	"log/slog"
	"os"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// Config is the configuration of a proxy. It is not changed.
type Config struct {
	Version      string   // of this agent
	Environ      []string // of this process; passed to Envoy too
	Identity     identity.Given
	TrustDomain  string // of the mesh
	Labels       Input  // of the pod, from the downward API; a missing file is no fault if it is not Given
	Annotations  Input  // likewise
	AwaitAddress bool   // wait until the host has an address

	Dir    Input // for the bootstrap, sockets and flight records
	Binary Input // Envoy
	Source Source

	LastGood LastGood

	// Params are the given parameters of the bootstrap. New adds Node, Metadata and SecretsSocket, and if they are not
	// given MemoryLimit and the SAN of discovery.
	Params bootstrap.Params

	Envoy       envoy.Options // Concurrency 0 is replaced by a computed value
	Supervision agent.Settings

	Certificates cert.Sets   // the first one is the workload's own
	Enrollment   *Enrollment // brings the files of the first one; nil if others do
	NewEpochs    bool        // each new certificate needs a new epoch, without a query whether Envoy has loaded it by itself

	UpgradeOnChange bool // a changed file of the agent's own binary takes over

	Ports status.Ports
	Log   *slog.Logger
}

// Enrollment is where the workload's certificate comes from.
type Enrollment struct {
	Host, Port string // of the authority
	Roots      string // file of roots of its certificate
	Token      string // file; empty for none
	Dir        string // of the certificate's files
	DirGiven   bool   // else they are in the slot where configPath is open to others

	within string // see enroll.Config
}

// Input is a path, and its name in messages.
type Input struct {
	Name  string // the flag or variable that set it: "--labelsFile", "PILOTLIGHT_LABELS_FILE"
	Path  string // empty for none
	Given bool   // it was set, and is not the default
}

// Process holds the functions and channels of the process in which a proxy runs.
type Process struct {
	Fork            func(func())     // runs its argument on the main thread
	Settings        func() string    // each setting with its value and origin, a line each; nil for none
	Stop            func()           // acts like the first signal to stop; a second call does nothing
	Hurry           <-chan struct{}  // each signal to stop after the first
	Quit            <-chan struct{}  // each SIGQUIT: Envoy stops without a drain
	HangUp          <-chan os.Signal // each SIGHUP
	Upgrade         <-chan os.Signal // each SIGUSR2
	Argv            []string         // of this process; the environment is Config.Environ
	Handed          *handoff.Handed  // by another image of the agent, which goes on in this one; nil for a start
	Stderr, Printed *lossy.Writer    // for the agent's log, and for Envoy's stdout
	Unready         func(why string) // called at the end with what the proxy waited for, if it was never ready; may be nil
}
