package bootstrap

// The static clusters beside discovery's, by Istio's names where it has them, for what already refers to them.
const (
	zipkinCluster           = "zipkin"
	openTelemetryCluster    = "opentelemetry"
	metricsServiceCluster   = "envoy_metrics_service"
	accessLogServiceCluster = "envoy_accesslog_service"
	agentAdminCluster       = "agent_admin"
	agentStatusCluster      = "agent_status"
)

// Upstream is a static cluster of one host, beside discovery's.
type Upstream struct {
	Name    string
	Address Address
	GRPC    bool // speaks HTTP/2
}

// Upstreams are those that the parameters name, and the agent's own where a listener leads there.
func (p Params) Upstreams() []Upstream {
	loopback := func(port int, wanted bool) Address {
		if !wanted {
			return Address{}
		}
		return Address{Host: "127.0.0.1", Port: port}
	}
	var out []Upstream
	for _, u := range []Upstream{
		{Name: zipkinCluster, Address: p.Zipkin},
		{Name: openTelemetryCluster, Address: p.OpenTelemetry, GRPC: true},
		{Name: metricsServiceCluster, Address: p.MetricsService, GRPC: true},
		{Name: accessLogServiceCluster, Address: p.AccessLogService, GRPC: true},
		{Name: agentAdminCluster, Address: loopback(p.AdminPort, p.PrometheusPort != 0)},
		{Name: agentStatusCluster, Address: loopback(p.StatusPort, p.ReadinessPort != 0)},
	} {
		if u.Address.IsSet() {
			out = append(out, u)
		}
	}
	return out
}

// Listener leads one path of a port to the agent.
type Listener struct {
	Name    string // of the listener, and the prefix of its stats
	Port    int
	Path    string
	Cluster string
}

// Listeners are those that have a port.
func (p Params) Listeners() []Listener {
	var out []Listener
	for _, l := range []Listener{
		{"agent_prometheus", p.PrometheusPort, "/stats/prometheus", agentAdminCluster},
		{"agent_readiness", p.ReadinessPort, "/healthz/ready", agentStatusCluster},
	} {
		if l.Port != 0 {
			out = append(out, l)
		}
	}
	return out
}
