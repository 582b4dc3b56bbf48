package envoy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/pilotlight/pilotlight/agent"
)

// Gates are the means to hold newcomers: secrets that Envoy waits for.
type Gates struct {
	Socket string                  // of an SDS server that the Envoys of the slot may ask
	Open   func(name string) error // makes a certificate exist there
	Shut   func(name string)
}

// gate holds a newcomer until it is fit: a static listener without a port waits for a certificate, so Envoy's workers do not start, and its
// parent serves on. Meanwhile Envoy makes the listeners that it gets by LDS.
//
//	held ── fit, or its parent has ended ──▶ reported ── order ──▶ opened ──▶ the workers start: Envoy makes its parent drain
type gate struct {
	secret    string           // new for each process
	addresses []netip.AddrPort // at which its parent listened when it was started
	reported  bool             // it is fit
	opened    atomic.Bool
	why       atomic.Pointer[string] // it is shut; nil before the first answer
}

const (
	gateName = "agent_gate" // of its listener and its cluster, and the prefix of their statistics
	// gateAddress is never bound. The port is one that nobody uses: with redirected traffic Envoy hands a connection to this
	// address on to the listener, which closes it.
	gateAddress, gatePort = "127.255.255.254", 1
)

func newGate(addresses []netip.AddrPort) *gate {
	return &gate{secret: gateName + ":" + rand.Text(), addresses: addresses}
}

// gated reports whether a newcomer of a configuration can and needs to be held: a static bootstrap is whole or not accepted.
func (p *Proxy) gated(config agent.Config) bool {
	own := slices.ContainsFunc(p.Options.Extra, func(arg string) bool { return strings.HasPrefix(arg, "--config-yaml") })
	return p.Gates.Open != nil && !own && (asks(config, "cds_config") || asks(config, "lds_config"))
}

// static returns the static resources that Envoy merges into its bootstrap.
func (g *gate) static(socket string) string {
	quoted := func(text string) string {
		out, _ := json.Marshal(text) // strings
		return string(out)
	}
	return strings.NewReplacer("\n", "", "\t", "", "NAME", gateName, "ADDRESS", gateAddress, "PORT", strconv.Itoa(gatePort),
		"SECRET", quoted(g.secret), "SOCKET", quoted(socket)).Replace(gateResources)
}

const gateResources = `{"clusters":[{"name":"NAME","connect_timeout":"1s","typed_extension_protocol_options":{
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{
		"@type":"type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
		"explicit_http_config":{"http2_protocol_options":{}}}},
	"load_assignment":{"cluster_name":"NAME","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"pipe":{"path":SOCKET}}}}]}]}}],
"listeners":[{"name":"NAME","stat_prefix":"NAME","bind_to_port":false,
	"address":{"socket_address":{"address":"ADDRESS","port_value":PORT}},
	"filter_chains":[{"transport_socket":{"name":"envoy.transport_sockets.tls","typed_config":{
		"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"common_tls_context":{"tls_certificate_sds_secret_configs":[{"name":SECRET,"sds_config":{
			"resource_api_version":"V3","initial_fetch_timeout":"0s","api_config_source":{
				"api_type":"GRPC","transport_api_version":"V3","set_node_on_first_message_only":true,
				"grpc_services":[{"envoy_grpc":{"cluster_name":"NAME","retry_policy":{"retry_back_off":{
					"base_interval":"0.1s","max_interval":"0.5s"}}}}]}}}]}}}}]}]}`

// knock reports once that a held process is fit to take over, or has no parent any more.
func (c *process) knock(ctx context.Context, report func(agent.Report)) {
	if c.gate == nil || c.gate.reported || c.parent == nil {
		return
	}
	prospect, err := c.prospect(ctx)
	switch {
	case c.orphaned():
	case err != nil:
		return // the last reason stays: it may have been killed just now
	default:
		if why := prospect.unfit(c.gate.addresses); why != "" {
			c.gate.why.Store(&why)
			return
		}
	}
	c.gate.reported = true
	report(agent.Fit)
}

// letThrough lets the process take over.
func (c *process) letThrough() {
	if err := c.Gates.Open(c.gate.secret); err != nil {
		c.Log.Error("newcomer not let through", "epoch", c.launch.Epoch, "err", err)
		return
	}
	c.gate.opened.Store(true)
}

// prospect asks for versions and not for counts of what was accepted: a newcomer may have imported its parent's counts.
func (c *process) prospect(ctx context.Context) (prospect, error) {
	stats, err := c.admin.Stats(ctx, `^(cluster_manager\.cds|listener_manager\.lds)\.(version|update_rejected)$`)
	if err != nil {
		return prospect{}, err
	}
	p := prospect{
		asksCDS: asks(c.launch.Config, "cds_config"), asksLDS: asks(c.launch.Config, "lds_config"),
		cdsAnswered: stats["cluster_manager.cds.version"] != 0 || stats["cluster_manager.cds.update_rejected"] != 0,
		ldsAccepted: stats["listener_manager.lds.version"] != 0,
		ldsRefused:  stats["listener_manager.lds.update_rejected"] != 0,
	}
	if c.Relayed != nil {
		if relayed := c.Relayed(c.started); relayed != nil {
			p.lacks = relayed.Lacks
		}
	}
	if p.ldsRefused && !p.ldsAccepted {
		p.refusal = c.output.lastRejection(listenerType).Text
		p.listeners, _, err = c.admin.Listeners(ctx)
	}
	return p, err
}

// orphaned reports whether the parent has ended.
func (c *process) orphaned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[c.parent.launch.Epoch] != c.parent
}

// held returns why a process that was killed had not been let through its gate; empty if it had none, was never asked,
// or ended otherwise.
func (c *process) held(exit agent.Exit) string {
	if c.gate == nil || c.gate.opened.Load() || exit.Signal != syscall.SIGKILL {
		return ""
	}
	if why := c.gate.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Listeners asks at which TCP or UDP addresses Envoy has listeners, and whether it has one at a pipe.
func (a *Admin) Listeners(ctx context.Context) (addresses []netip.AddrPort, pipe bool, err error) {
	body, err := a.get(ctx, "/listeners")
	addresses, pipe = parseListeners(string(body))
	return addresses, pipe, err
}

// parseListeners reads lines of "name::address", one for each address. A name may contain the separator too.
func parseListeners(text string) (addresses []netip.AddrPort, pipe bool) {
	for line := range strings.Lines(text) {
		rest, found := strings.TrimSpace(line), true
		if strings.HasPrefix(rest, gateName+"::") {
			continue
		}
		for found {
			_, rest, found = strings.Cut(rest, "::")
			address, err := netip.ParseAddrPort(rest)
			if err == nil {
				addresses = append(addresses, netip.AddrPortFrom(address.Addr().Unmap(), address.Port()))
				break
			}
			pipe = pipe || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "@")
		}
	}
	return addresses, pipe
}
