package proxy

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/status"
)

// The variables in which the injector gives the application's probes and metrics' annotations, which it has moved to the agent.
const (
	probesVariable     = "ISTIO_KUBE_APP_PROBERS"
	prometheusVariable = "ISTIO_PROMETHEUS_ANNOTATIONS"
)

// workload is the application beside the proxy, as far as the agent sends requests to it.
type workload struct {
	application *status.Application
	probes      status.Probes
}

// workloadOf reads these variables; its error has every fault. A probe may name the proxy's address and those of this host.
func workloadOf(env identity.Environment, statusPort int, ip string, addresses []netip.Addr) (w workload, err error) {
	own := []string{ip}
	for _, address := range addresses {
		own = append(own, address.String())
	}
	var faults *multierror.Error
	if text := env[probesVariable]; text != "" {
		w.probes, err = status.ParseProbes(text, own)
		faults = multierror.Append(faults, ofVariable(probesVariable, err)...)
	}
	if text := env[prometheusVariable]; text != "" {
		w.application, err = status.ParseApplication(text, statusPort)
		faults = multierror.Append(faults, ofVariable(prometheusVariable, err)...)
	}
	return w, faults.ErrorOrNil()
}

// ofVariable says of each fault in which variable it is.
func ofVariable(name string, err error) (faults []error) {
	all := []error{err}
	if several := (*multierror.Error)(nil); errors.As(err, &several) {
		all = several.Errors
	}
	for _, fault := range all {
		if fault != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, fault))
		}
	}
	return faults
}
