package main

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// resolved are the settings of some flags: "--ip", "10.0.0.1".
func resolved(t *testing.T, env identity.Environment, flags ...string) *settings {
	t.Helper()
	sources := setting.Sources{Env: env}
	for i := 0; i < len(flags); i += 2 {
		sources.Flags = append(sources.Flags, setting.Given{Name: strings.TrimPrefix(flags[i], "--"), Text: flags[i+1]})
	}
	s := &settings{}
	if faults := s.resolve(sources); len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}
