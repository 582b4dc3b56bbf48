package main

import (
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// target is where a command finds the agent of its pod or host: a port on loopback, by the flag or the variable that
// gave it to the agent.
type target struct {
	table setting.Table // of the port alone
	given []setting.Given
	port  int
}

func statusTarget(f *pflag.FlagSet) *target {
	return newTarget(f, "statusPort", "15020", "the agent's status port on loopback")
}

func adminTarget(f *pflag.FlagSet) *target {
	return newTarget(f, "proxyAdminPort", "15000", "the agent's front of Envoy's admin on loopback")
}

func newTarget(f *pflag.FlagSet, name, port, help string) *target {
	t := &target{}
	s := setting.Setting{Name: name, Default: port, Kind: setting.Int(&t.port, 1, 65535)}
	t.table = setting.Table{Prefix: "PILOTLIGHT_", Settings: []setting.Setting{s}}
	flag := &flagText{name: name, kind: s.Kind.Type, value: port, to: &t.given}
	f.Var(flag, name, help+" ($"+t.table.Variable(name)+")")
	return t
}

// client returns who asks there. A fault names the flag or the variable.
func (t *target) client(env environment, timeout time.Duration) (*client.Client, error) {
	origins, faults := t.table.Resolve(setting.Sources{Flags: t.given, Env: env})
	if faults.ErrorOrNil() != nil {
		return nil, usage(faults)
	}
	base := &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(t.port))}
	return &client.Client{Base: base, Setting: origins[t.table.Settings[0].Name].Name, Timeout: timeout}, nil
}
