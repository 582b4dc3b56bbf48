package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

func TestPlan(t *testing.T) {
	defaults := options{bin: "bin", config: "examples/bookinfo/config", run: "run", addresses: defaultAddresses}
	moved := defaults
	moved.addresses, moved.offset = "127.7.0.", 1000
	registered := moved
	registered.registry = consul
	strict := defaults
	strict.mtls = true
	for name, o := range map[string]options{"default": defaults, "moved": moved, "consul": registered, "mtls": strict} {
		t.Run(name, func(t *testing.T) { golden.Text(t, newPlan(o).String()) })
	}
}

// String shows a plan as one would type it into a shell.
func (p plan) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "config %s\npage   %s\n", p.config, p.page)
	for _, s := range p.sidecars {
		fmt.Fprintf(&out, "admin  %s %s %s\n", s.Name, s.Admin, s.ConfigPath)
	}
	if p.consulAt != "" {
		fmt.Fprintf(&out, "\n%s\n%s", p.consulAt, p.services)
	}
	if p.ca != "" {
		fmt.Fprintf(&out, "\nfurther   %s\nauthority %s\n", p.further, p.ca)
	}
	for _, t := range p.tokens {
		fmt.Fprintf(&out, "%s > %s\n", strings.Join(t.argv, " "), t.file)
	}
	for i, phase := range p.phases {
		fmt.Fprintf(&out, "\nphase %d\n", i)
		for _, s := range phase {
			fmt.Fprintf(&out, "%s, ready at %s\n", s.name, s.ready)
			for _, e := range s.env {
				fmt.Fprintf(&out, "    %s\n", e)
			}
			fmt.Fprintf(&out, "    %s\n", strings.ReplaceAll(strings.Join(s.argv, " "), " -", "\n      -"))
		}
	}
	return out.String()
}

// Two processes of one plan on one port, or two plans side by side, would be a demo that never comes up.
func TestPlansDoNotCollide(t *testing.T) {
	owner := map[string]string{}
	for name, o := range map[string]options{
		"first":  {addresses: "127.0.0.", offset: 0, run: "a"},
		"second": {addresses: "127.7.0.", offset: 1000, run: "b"},
		"third":  {addresses: "127.8.0.", offset: 2000, run: "c", mtls: true},
	} {
		p := newPlan(o)
		for _, url := range []string{p.page, local(grpcPort+o.offset, ""), local(securePort+o.offset, "")} {
			claim(t, owner, url, name)
		}
		for i, s := range p.sidecars {
			claim(t, owner, local(outboundPort+i+o.offset, ""), name+" "+s.Name)
		}
		for _, phase := range p.phases {
			for _, s := range phase {
				claim(t, owner, strings.TrimSuffix(strings.TrimSuffix(s.ready, "/ready"), "/health"), name+" "+s.name)
			}
		}
	}
}

func claim(t *testing.T, owner map[string]string, place, name string) {
	t.Helper()
	if other, taken := owner[place]; taken {
		t.Errorf("%s is claimed by %s and %s", place, other, name)
	}
	owner[place] = name
}
