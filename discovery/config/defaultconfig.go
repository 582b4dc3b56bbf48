package config

import (
	"strconv"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/node"
)

func proxyVariables(f field, variables map[string]string) {
	for name := range inOrder(variables) {
		at := f.key(name)
		if !variableName.MatchString(name) {
			at.errorf("the variable's name is %q, want letters, digits, '_', '-' and '.', no digit first", name)
		} else if node.Reserved(name) {
			at.warnf("is set by the injector, ignored for Pods that are injected")
		}
	}
}

// defaultConfig checks what injection takes from MeshConfig's defaultConfig: with a fault here no Pod could be created.
func defaultConfig(f field, c *meshconfig.ProxyConfig) {
	for name, address := range inOrder(map[string]string{
		//lint:ignore SA1019 it is still set
		"zipkinAddress": c.GetZipkinAddress(),
		//lint:ignore SA1019 it is still set
		"envoyMetricsServiceAddress": c.GetEnvoyMetricsServiceAddress(),
		"discoveryAddress":           c.GetDiscoveryAddress(), "statsdUdpAddress": c.GetStatsdUdpAddress(), "tracing.zipkin.address": c.GetTracing().GetZipkin().GetAddress(),
		"envoyMetricsService.address": c.GetEnvoyMetricsService().GetAddress(), "envoyAccessLogService.address": c.GetEnvoyAccessLogService().GetAddress(),
	}) {
		colon := strings.LastIndexByte(address, ':')
		port, err := strconv.ParseUint(address[colon+1:], 10, 16)
		if address != "" && (colon < 1 || err != nil || port == 0 || strings.ContainsAny(address, "$/ ")) {
			at := f
			for part := range strings.SplitSeq(name, ".") {
				at = at.at(part)
			}
			at.errorf("is %q, want host:port", address)
		}
	}
	for name, port := range inOrder(map[string]int32{"statusPort": c.GetStatusPort(), "proxyAdminPort": c.GetProxyAdminPort()}) {
		if port != 0 {
			f.at(name).port(uint32(port))
		}
	}
	if d := c.GetDrainDuration(); d != nil && (d.AsDuration() < time.Second || d.AsDuration() > time.Hour || d.AsDuration()%time.Second != 0) {
		f.at("drainDuration").errorf("is %v, want whole seconds, 1s to 1h", d.AsDuration())
	}
	if d := c.GetTerminationDrainDuration(); d != nil && (d.AsDuration() < 0 || d.AsDuration() > time.Hour) {
		f.at("terminationDrainDuration").errorf("is %v, want 0s to 1h", d.AsDuration())
	}
	f.at("concurrency").count(c.GetConcurrency().GetValue())
	proxyVariables(f.at("proxyMetadata"), c.GetProxyMetadata())
}
