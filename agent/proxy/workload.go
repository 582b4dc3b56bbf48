package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/metrics"
	"github.com/pilotlight/pilotlight/agent/probe"
)

// The variables with the application's probes and its annotations for metrics, which the injector has moved to the
// agent.
const (
	probesVariable     = "ISTIO_KUBE_APP_PROBERS"
	prometheusVariable = "ISTIO_PROMETHEUS_ANNOTATIONS"
)

// workload is the application beside the proxy: its endpoints to which the agent sends requests.
type workload struct {
	application *metrics.Application
	probes      probe.Probes
}

// workloadOf parses these variables; its error has every fault. A probe may name the proxy's address and those of this
// host. One that names none goes to the proxy's address, if the host has it.
func workloadOf(env identity.Environment, statusPort int, ip string, addresses []netip.Addr) (w workload, err error) {
	own := []string{ownAddress(ip, addresses), ip}
	for _, address := range addresses {
		own = append(own, address.String())
	}
	var faults *multierror.Error
	if text := env[probesVariable]; text != "" {
		w.probes, err = probe.ParseProbes(text, own)
		faults = multierror.Append(faults, ofVariable(probesVariable, err)...)
	}
	if text := env[prometheusVariable]; text != "" {
		w.application, err = metrics.ParseApplication(text, statusPort, own[0])
		faults = multierror.Append(faults, ofVariable(prometheusVariable, err)...)
	}
	return w, faults.ErrorOrNil()
}

// ownAddress returns the proxy's address if it is one of this host, and nothing if it may be that of another machine.
func ownAddress(ip string, addresses []netip.Addr) string {
	address, err := netip.ParseAddr(ip)
	if err == nil && (address.IsLoopback() || slices.Contains(addresses, address.Unmap())) {
		return ip
	}
	return ""
}

// ofVariable adds the name of the variable to each fault.
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
