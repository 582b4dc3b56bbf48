package main

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// --caAddress says where discovery is, that it speaks mutual TLS, and where certificates lie, unless that was given.
func TestWhatFollowsFromAnAuthority(t *testing.T) {
	s := resolved(t, nil, "--caAddress", "ca.test:15012", "--caRoots", "/r", "--configPath", "/run/agent")
	if s.discoveryAddress != "ca.test:15012" || s.controlPlaneAuthPolicy != authMutualTLS || s.certDir != "/run/agent/certificates" {
		t.Errorf("discovery %s, %s, certificates in %s", s.discoveryAddress, s.controlPlaneAuthPolicy, s.certDir)
	}
	if e := s.enrollment(); e == nil || e.Host != "ca.test" || e.Port != "15012" || e.Dir != s.certDir || e.DirGiven {
		t.Errorf("%+v", e)
	}
	given := resolved(t, nil, "--caAddress", "ca.test:15012", "--caRoots", "/r", "--discoveryAddress", "d:1", "--controlPlaneAuthPolicy", "NONE", "--certDir", "/c")
	if given.discoveryAddress != "d:1" || given.controlPlaneAuthPolicy != authNone || given.certDir != "/c" || given.enrollment().Dir != "/c" || !given.enrollment().DirGiven {
		t.Errorf("discovery %s, %s, certificates in %s, want what was given", given.discoveryAddress, given.controlPlaneAuthPolicy, given.certDir)
	}
	beside := resolved(t, nil, "--discoveryAddress", "d:1", "--caRoots", "/r")
	if e := beside.enrollment(); e == nil || e.Host != "d" || e.Port != "1" || beside.controlPlaneAuthPolicy != authMutualTLS || e.DirGiven {
		t.Errorf("an authority beside discovery: %+v, %s", e, beside.controlPlaneAuthPolicy)
	}
	plain := resolved(t, nil, "--discoveryAddress", "d:15010", "--caRoots", "/r")
	if e := plain.enrollment(); e == nil || e.Port != "15012" || plain.discoveryAddress != "d:15010" || plain.controlPlaneAuthPolicy != authNone {
		t.Errorf("an authority beside a plain discovery: %+v, %s, %s", e, plain.discoveryAddress, plain.controlPlaneAuthPolicy)
	}
	if without := resolved(t, nil); without.enrollment() != nil || without.certDir != "/etc/certs" {
		t.Errorf("without an authority: %+v, %s", without.enrollment(), without.certDir)
	}
}

func TestSettingsOfAnAuthorityBelongTogether(t *testing.T) {
	for _, c := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{"caAddress": "ca.test:1"}, `--caRoots "": want the roots of the authority at --caAddress`},
		{map[string]string{"caRoots": "/r"}, `--caAddress "": want an address beside --caRoots and --caToken`},
		{map[string]string{"caToken": "/t"}, `--caAddress "": want an address beside --caRoots and --caToken`},
	} {
		env := map[string]string{}
		for name, value := range c.flags {
			env[(&settings{}).table().Variable(name)] = value
		}
		var texts []string
		for _, fault := range (&settings{}).resolve(setting.Sources{Env: env}) {
			texts = append(texts, fault.Error())
		}
		if got := strings.Join(texts, "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.flags, got, c.want)
		}
	}
}
