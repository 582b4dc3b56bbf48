package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
)

const requestLong = `Send a request to Envoy's admin through the agent, and print the answer's body as it comes.

The agent forwards to the Envoy that serves: GET and HEAD for every program on the host, and for its own user and root,
who find its socket in --configPath, the few POST requests that change what Envoy tells, not what it serves. It says why it
refuses another. BODY is the request's body, - for standard input. Where --proxyAdminPort is given, the socket is used only if
--configPath is given too.

Exit status: 0 for an answer 2xx; 1 for any other, which goes to stderr with its status, or none; 2 a fault of flags,
arguments or environment.`

const requestExample = `  agent request GET /clusters?format=json
  agent request GET /config_dump | jq .
  agent request POST /logging?upstream=debug`

func requestCommand(c command) *cobra.Command {
	var requestTimeout time.Duration
	cmd := &cobra.Command{
		Use:     "request METHOD PATH [BODY]",
		Short:   "Send a request to Envoy's admin and print the answer",
		Long:    requestLong,
		Example: requestExample,
		Args:    cobra.RangeArgs(2, 3),
	}
	f := cmd.Flags()
	f.SortFlags = false
	target := adminTarget(f)
	f.DurationVar(&requestTimeout, "requestTimeout", 30*time.Second, "how long the answer may take to begin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if requestTimeout <= 0 {
			return setting.Usage("agent", fmt.Errorf("--requestTimeout %v: want more than 0s", requestTimeout))
		}
		method := strings.ToUpper(args[0])
		if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return setting.Usage("agent", fmt.Errorf("METHOD %q: want letters, such as GET or POST", args[0]))
		}
		var body io.Reader
		switch {
		case len(args) == 3 && args[2] == "-":
			body = cmd.InOrStdin()
		case len(args) == 3:
			body = strings.NewReader(args[2])
		}
		return request(cmd.Context(), cmd.OutOrStdout(), c, target, requestTimeout, method, args[1], body)
	}
	return cmd
}

func request(
	ctx context.Context, out io.Writer, c command, t *target, timeout time.Duration, method, path string, body io.Reader,
) error {
	admin, err := t.client(environ.Parse(c.environ), timeout)
	if err != nil {
		return err
	}
	response, err := admin.Do(ctx, method, "/"+strings.TrimLeft(path, "/"), body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		const enough = 64 << 10
		why, err := io.ReadAll(io.LimitReader(response.Body, enough))
		if err != nil {
			return fmt.Errorf("%s %s: %s: the answer ends early: %w", method, path, response.Status, err)
		}
		return fmt.Errorf("%s %s: %s\n%s", method, path, response.Status, strings.TrimSpace(string(why)))
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("%s %s: pass on the answer: %w", method, path, err)
	}
	return nil
}

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
