package main

import (
	"net"
	"path/filepath"

	"github.com/pilotlight/pilotlight/agent/proxy"
)

// certificatesDir is where the agent keeps a certificate of --caAddress, below configPath.
const certificatesDir = "certificates"

// Ports of discovery, as Istio has them.
const (
	plainPort  = "15010"
	securePort = "15012"
)

// enrol sets what --caAddress says of settings that were not given.
func (s *settings) enrol() {
	if s.caAddress == "" && s.caRoots != "" && s.origins["discoveryAddress"].Set() {
		s.caAddress, s.origins["caAddress"] = besideDiscovery(s.discoveryAddress), s.origins["discoveryAddress"]
	}
	if s.caAddress == "" {
		return
	}
	auth := authMutualTLS
	if s.discoveryAddress != s.caAddress && s.origins["caAddress"] == s.origins["discoveryAddress"] {
		auth = authNone // that of the plain port, as it was given
	}
	for _, of := range []struct {
		name  string
		to    *string
		value string
	}{
		{"discoveryAddress", &s.discoveryAddress, s.caAddress},
		{"controlPlaneAuthPolicy", &s.controlPlaneAuthPolicy, auth},
		{"certDir", &s.certDir, filepath.Join(s.configPath, certificatesDir)},
	} {
		if !s.origins[of.name].Set() {
			*of.to, s.origins[of.name] = of.value, s.origins["caAddress"]
		}
	}
}

// besideDiscovery returns the address of the authority that is discovery: its own, or its secure port where that is the plain one.
func besideDiscovery(discovery string) string {
	host, port, err := net.SplitHostPort(discovery)
	if err != nil {
		return ""
	}
	if port == plainPort {
		port = securePort
	}
	return net.JoinHostPort(host, port)
}

// enrollment returns where the workload's certificate comes from; nil if others bring its files.
func (s *settings) enrollment() *proxy.Enrollment {
	host, port, err := net.SplitHostPort(s.caAddress)
	if err != nil {
		return nil // empty: its Kind has checked it
	}
	return &proxy.Enrollment{Host: host, Port: port, Roots: s.caRoots, Token: s.caToken, Dir: s.certDir, DirGiven: s.origins["certDir"] != s.origins["caAddress"]}
}
