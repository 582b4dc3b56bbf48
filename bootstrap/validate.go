package bootstrap

import (
	"errors"
	"fmt"
	"time"
)

// Validate reports every fault of the parameters that would give no bootstrap, or one that does not do what it says.
func (p Params) Validate() error {
	faults := []error{p.Discovery.validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if err := p.Node.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("node: %w", err))
	}
	for _, service := range []struct {
		name    string
		address Address
	}{
		{"Zipkin", p.Zipkin},
		{"OpenTelemetry", p.OpenTelemetry},
		{"statsd", p.Statsd},
		{"metrics service", p.MetricsService},
		{"access log service", p.AccessLogService},
	} {
		if err := service.address.check(); service.address.IsSet() && err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", service.name, err))
		}
	}
	check(p.Discovery.TLS == nil || p.SecretsSocket != "",
		"discovery: TLS: has no socket of the secrets")
	check(!p.Zipkin.IsSet() || !p.OpenTelemetry.IsSet(),
		"spans go to Zipkin %s or to OpenTelemetry %s: name one", p.Zipkin, p.OpenTelemetry)
	check(!p.Statsd.IsSet() || p.Statsd.IsIP(),
		"statsd %s: want an IP address, for Envoy looks up no name here", p.Statsd)
	check(p.PrometheusPort == 0 || p.AdminPort != 0,
		"the Prometheus listener leads to the agent's admin port, and there is none")
	check(p.ReadinessPort == 0 || p.StatusPort != 0,
		"the readiness listener leads to the agent's status port, and there is none")
	faults = append(faults, p.ports()...)
	return errors.Join(faults...)
}

// ports holds that each is a port, and that no two are the same: the host would deal out their connections.
func (p Params) ports() (faults []error) {
	taken := map[int]string{}
	for _, port := range []struct {
		name   string
		number int
	}{
		{"admin", p.AdminPort},
		{"status", p.StatusPort},
		{"Prometheus", p.PrometheusPort},
		{"readiness", p.ReadinessPort},
	} {
		other, both := taken[port.number]
		switch {
		case port.number == 0:
		case port.number < 0 || port.number > 65535:
			faults = append(faults, fmt.Errorf("%s port %d: want 1 to 65535, or 0 for none", port.name, port.number))
		case both:
			faults = append(faults, fmt.Errorf("%s port %d: is the %s port already", port.name, port.number, other))
		default:
			taken[port.number] = port.name
		}
	}
	return faults
}

func (d Discovery) validate() error {
	var faults []error
	if err := d.check(); err != nil {
		faults = append(faults, err)
	}
	if d.ConnectTimeout < time.Millisecond {
		faults = append(faults, fmt.Errorf("connect timeout %s: want 1ms or more", d.ConnectTimeout))
	}
	if d.Variant != "" && d.Variant != SotW && d.Variant != Delta {
		faults = append(faults, fmt.Errorf("variant %q: want sotw or delta", d.Variant))
	}
	if d.TLS != nil {
		faults = append(faults, d.TLS.validate())
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	return nil
}

// validate holds that nothing is empty: without a SAN every certificate of the same roots would be discovery's.
func (t TLS) validate() error {
	var faults []error
	for _, field := range []struct{ name, value string }{
		{"certificate chain", t.Chain},
		{"private key", t.Key},
		{"root certificates", t.Roots},
		{"subject alternative name", t.SAN},
	} {
		if field.value == "" {
			faults = append(faults, fmt.Errorf("TLS: has no %s", field.name))
		}
	}
	return errors.Join(faults...)
}
