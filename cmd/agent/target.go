package main

import (
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// target is the address of the agent of the pod or host: a port on loopback, by the same flag or variable as in the
// agent, and for writes the owner's socket in its configPath.
type target struct {
	table      setting.Table // of the port and the directory
	flags      setting.Flags
	port       int
	configPath string
	host       string // the Host header for the socket
}

func statusTarget(f *pflag.FlagSet) *target {
	return newTarget(f, status.HostAgent, "statusPort", "15020", "the agent's status port on loopback")
}

func adminTarget(f *pflag.FlagSet) *target {
	return newTarget(f, status.HostEnvoy, "proxyAdminPort", "15000", "the agent's front of Envoy's admin on loopback")
}

func newTarget(f *pflag.FlagSet, host, name, port, help string) *target {
	t := &target{host: host}
	t.table = setting.Table{Prefix: "PILOTLIGHT_", Settings: []setting.Setting{
		{Name: name, Default: port, Kind: setting.Int(&t.port, 1, 65535)},
		{Name: "configPath", Default: defaultConfigPath, Kind: setting.Name(&t.configPath, "a directory")},
	}}
	helps := []string{help, "the agent's own directory, where its user and root find the socket that takes writes"}
	for i, s := range t.table.Settings {
		t.flags.Add(f, s, helps[i]+" ($"+t.table.Variable(s.Name)+")")
	}
	return t
}

// client returns a client for the target. An error has the name of the flag or the variable.
func (t *target) client(env identity.Environment, timeout time.Duration) (*client.Client, error) {
	origins, faults := t.table.Resolve(setting.Sources{Flags: t.flags.Given, Env: env})
	if faults.ErrorOrNil() != nil {
		return nil, usage(faults)
	}
	base := &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(t.port))}
	port := origins[t.table.Settings[0].Name]
	c := &client.Client{Base: base, Setting: port.Name, Timeout: timeout}
	if origins["configPath"].Set() || !port.Set() { // the default directory belongs to the agent of the default port
		c.Socket, c.Host = func() string { return envoy.FindSocket(t.configPath, status.SocketName) }, t.host
	}
	return c, nil
}
