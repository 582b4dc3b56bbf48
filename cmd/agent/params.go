package main

import (
	"net"
	"strconv"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// bootstrap joins who the proxy is with what it was told.
func (s *settings) bootstrap(id node.ID, metadata node.Metadata, env environment) bootstrap.Params {
	host, port, _ := net.SplitHostPort(s.discoveryAddress) // its Kind has seen both
	number, _ := strconv.Atoi(port)
	return bootstrap.Params{
		Node:     id,
		Cluster:  s.serviceCluster,
		Metadata: metadata,
		Discovery: bootstrap.Discovery{
			Address: bootstrap.Address{Host: host, Port: number}, ConnectTimeout: s.connectTimeout,
		},
	}
}

// options become Envoy's arguments.
func (s *settings) options() envoy.Options {
	return envoy.Options{
		Concurrency:       s.concurrency,
		LogLevel:          s.envoyLogLevel(),
		ComponentLogLevel: s.proxyComponentLogLevel,
		DrainTime:         s.drainDuration,
		ParentShutdown:    s.parentShutdownDuration,
		Extra:             s.envoyArguments,
	}
}

// envoyLogLevel is the level in Envoy's own words of today.
func (s *settings) envoyLogLevel() string {
	switch s.proxyLogLevel {
	case "warn":
		return "warning"
	case "err":
		return "error"
	}
	return s.proxyLogLevel
}

// supervision is how the supervisor decides.
func (s *settings) supervision() agent.Settings {
	return agent.Settings{
		Handover:         agent.Way(s.handover),
		HandoverTimeout:  s.handoverTimeout,
		ParentShutdown:   s.parentShutdownDuration,
		TerminationDrain: s.terminationDrainDuration,
		WaitOut:          !s.exitOnZeroActiveConnections,
		RestartBudget:    s.restartBudget,
		BackOffBase:      s.restartBackOff,
	}
}
