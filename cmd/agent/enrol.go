package main

import (
	"net"
	"path/filepath"

	"github.com/pilotlight/pilotlight/agent/proxy"
)

// certificatesDir is where the agent keeps a certificate of --caAddress, below configPath.
const certificatesDir = "certificates"

// enrol sets what --caAddress says of settings that were not given.
func (s *settings) enrol() {
	if s.caAddress == "" {
		return
	}
	for _, of := range []struct {
		name  string
		to    *string
		value string
	}{
		{"discoveryAddress", &s.discoveryAddress, s.caAddress},
		{"controlPlaneAuthPolicy", &s.controlPlaneAuthPolicy, authMutualTLS},
		{"certDir", &s.certDir, filepath.Join(s.configPath, certificatesDir)},
	} {
		if !s.origins[of.name].Set() {
			*of.to, s.origins[of.name] = of.value, s.origins["caAddress"]
		}
	}
}

// enrollment returns where the workload's certificate comes from; nil if others bring its files.
func (s *settings) enrollment() *proxy.Enrollment {
	host, port, err := net.SplitHostPort(s.caAddress)
	if err != nil {
		return nil // empty: its Kind has checked it
	}
	return &proxy.Enrollment{Host: host, Port: port, Roots: s.caRoots, Token: s.caToken, Dir: s.certDir, DirGiven: s.origins["certDir"] != s.origins["caAddress"]}
}
