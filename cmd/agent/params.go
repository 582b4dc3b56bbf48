package main

import (
	"net"
	"strconv"

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// bootstrap joins who the proxy is with what it was told.
func (s *settings) bootstrap(id node.ID, metadata node.Metadata, env environment) bootstrap.Params {
	host, port, _ := net.SplitHostPort(s.discoveryAddress) // its Kind has seen both
	number, _ := strconv.Atoi(port)
	return bootstrap.Params{
		Node:           id,
		Cluster:        s.serviceCluster,
		Metadata:       metadata,
		DiscoveryHost:  host,
		DiscoveryPort:  number,
		ConnectTimeout: s.connectTimeout,
	}
}
