package config

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func serviceEntry(f field, s *networking.ServiceEntry) {
	f.at("hosts").required(len(s.Hosts))
	hosts := unique{}
	for i, host := range s.Hosts {
		f.at("hosts").item(i).host(host, true)
		f.at("hosts").item(i).wholeWildcard(host, Warning)
		hosts.add(f.at("hosts").item(i), strings.ToLower(host))
	}
	addresses := unique{}
	for i, address := range s.Addresses {
		f.at("addresses").item(i).subnet(address)
		addresses.add(f.at("addresses").item(i), model.Address(address))
	}
	servicePorts(f.at("ports"), s.Ports)
	addressed(f, s)
	f.at("exportTo").exportTo(s.ExportTo)
	f.at("workloadSelector").at("labels").labels(s.GetWorkloadSelector().GetLabels())
	if s.WorkloadSelector != nil {
		f.at("workloadSelector").someLabels(s.WorkloadSelector.Labels)
		if s.Resolution == networking.ServiceEntry_NONE {
			f.at("workloadSelector").warnf("is used by gateways and under interception NONE only: resolution NONE connects to the address that was dialled; want STATIC or DNS")
		}
	}
	if s.WorkloadSelector != nil && len(s.Endpoints) > 0 {
		f.at("workloadSelector").errorf("is given beside endpoints, want one of them")
	}
	resolution(f, s)
	names := map[string]bool{}
	for _, p := range s.Ports {
		names[p.GetName()] = true
	}
	for i, e := range s.Endpoints {
		endpoint(f.at("endpoints").item(i), e, s, names)
	}
}

// addressed warns about a port of TCP, or of another protocol without hosts, in a ServiceEntry without addresses: then
// only the port identifies the service.
func addressed(f field, s *networking.ServiceEntry) {
	for _, p := range s.Ports {
		switch protocol, _ := model.ParseProtocol(p.Protocol); protocol {
		case model.TCP, model.Mongo, model.Redis, model.MySQL:
			if len(s.Addresses) == 0 {
				f.at("addresses").warnf("is empty: every connection to port %d, to whatever address, goes to this service; "+
					"want the addresses that its clients dial", p.Number)
				return
			}
		case model.TLS, model.HTTPS:
		default:
			continue
		}
		if len(s.Hosts) > 1 && len(s.Addresses) > 0 {
			f.at("hosts").warnf("are %d of one address: at port %d the bytes do not say which is meant; want a ServiceEntry for each", len(s.Hosts), p.Number)
			return
		}
	}
}

// resolution requires endpoints of the kind that the resolution supports.
func resolution(f field, s *networking.ServiceEntry) {
	wildcard := slices.IndexFunc(s.Hosts, isWildcard)
	dns := s.Resolution == networking.ServiceEntry_DNS || s.Resolution == networking.ServiceEntry_DNS_ROUND_ROBIN
	for i, address := range s.Addresses {
		if dns && strings.Contains(address, "/") {
			f.at("addresses").item(i).errorf("is %q, want an IP address under resolution %s", address, s.Resolution)
		}
	}
	switch s.Resolution {
	case networking.ServiceEntry_NONE:
		if len(s.Endpoints) > 0 {
			f.at("endpoints").errorf("are given under resolution NONE, which connects to the address that was dialled")
		}
	case networking.ServiceEntry_STATIC:
		if len(s.Endpoints) == 0 && s.WorkloadSelector == nil {
			f.at("endpoints").warnf("is empty: every request is answered 503")
		}
	case networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
		if wildcard >= 0 && len(s.Endpoints) == 0 && s.WorkloadSelector == nil {
			f.at("hosts").item(wildcard).errorf("is %q: without endpoints the host is resolved, want a full name",
				s.Hosts[wildcard])
		}
		if s.Resolution == networking.ServiceEntry_DNS_ROUND_ROBIN && len(s.Endpoints) > 1 {
			f.at("endpoints").errorf("are %d, want at most one under DNS_ROUND_ROBIN", len(s.Endpoints))
		}
	case networking.ServiceEntry_DYNAMIC_DNS:
		dynamic(f, s)
	default:
		f.at("resolution").errorf("is %s, which is not supported, want NONE, STATIC, DNS or DNS_ROUND_ROBIN",
			s.Resolution)
	}
}

// dynamic judges resolution DYNAMIC_DNS, which Istio serves in waypoints of its ambient mode only: sidecars and gateways
// serve the hosts as under NONE.
func dynamic(f field, s *networking.ServiceEntry) {
	f.at("resolution").warnf("is DYNAMIC_DNS, which is served as NONE: the address that the client has resolved is dialled")
	for i, host := range s.Hosts {
		if !isWildcard(host) {
			f.at("hosts").item(i).errorf("is %q, want a wildcard under resolution DYNAMIC_DNS", host)
		}
	}
	if len(s.Addresses) > 0 {
		f.at("addresses").errorf("are given under resolution DYNAMIC_DNS, which has none")
	}
	if len(s.Endpoints) > 0 {
		f.at("endpoints").errorf("are given under resolution DYNAMIC_DNS, which has none")
	}
	if s.Location != networking.ServiceEntry_MESH_EXTERNAL {
		f.at("location").errorf("is %s, want MESH_EXTERNAL under resolution DYNAMIC_DNS", s.Location)
	}
	for i, p := range s.Ports {
		switch protocol, known := model.ParseProtocol(p.Protocol); {
		case known && (protocol == model.HTTP || protocol == model.TLS):
		default:
			f.at("ports").item(i).at("protocol").errorf("is %q, want HTTP or TLS under resolution DYNAMIC_DNS", p.Protocol)
		}
	}
}

func isWildcard(host string) bool { return strings.HasPrefix(host, "*") }

func servicePorts(f field, ports []*networking.ServicePort) {
	if len(ports) == 0 {
		f.warnf("is empty: nothing leads to the service")
	}
	names, numbers := unique{}, map[uint32]bool{}
	for i, p := range ports {
		at := f.item(i)
		at.at("number").port(p.Number)
		at.at("name").label(p.Name)
		at.at("protocol").protocol(p.Protocol)
		if p.Protocol == "" {
			at.at("protocol").warnf("is missing: the first bytes of each connection decide, and a server that speaks first is not found out; " +
				"want HTTP, HTTP2, GRPC, TLS, TCP or another")
		}
		if p.TargetPort != 0 {
			at.at("targetPort").port(p.TargetPort)
		}
		names.add(at.at("name"), p.Name)
		if numbers[p.Number] {
			at.at("number").errorf("is %d, which is there already", p.Number)
		}
		numbers[p.Number] = true
	}
}

func endpoint(f field, e *networking.WorkloadEntry, s *networking.ServiceEntry, ports map[string]bool) {
	path, unix := strings.CutPrefix(e.Address, "unix://")
	switch _, err := netip.ParseAddr(e.Address); {
	case e.Address == "" && e.Network != "":
		f.at("address").warnf("is missing: only proxies of other networks reach the endpoint, by the gateways of network %q", e.Network)
	case e.Address == "":
		f.at("address").errorf("is missing")
	case err == nil:
	case unix:
		unixPath(f.at("address"), path)
		if s.Resolution != networking.ServiceEntry_STATIC {
			f.at("address").errorf("is %q, which needs resolution STATIC", e.Address)
		}
		if len(e.Ports) > 0 {
			f.at("ports").errorf("are given, and a Unix socket has none")
		}
	case s.Resolution == networking.ServiceEntry_DNS || s.Resolution == networking.ServiceEntry_DNS_ROUND_ROBIN:
		f.at("address").host(e.Address, false)
	default:
		f.at("address").errorf("is %q, want an IP address under resolution %s", e.Address, s.Resolution)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Ports)) {
		if !ports[name] {
			f.at("ports").key(name).errorf("is not the name of one of the service's ports")
		}
		f.at("ports").key(name).port(e.Ports[name])
	}
	f.at("labels").labels(e.Labels)
	weight(f.at("weight"), e.Weight)
}

// weight is bound by Envoy's 32 bits for all endpoints of a cluster together.
func weight(f field, n uint32) {
	const most = 1 << 20
	if n > most {
		f.errorf("is %d, want at most %d", n, most)
	}
}

// unixPath requires a path that fits into a socket's address.
func unixPath(f field, path string) {
	abstract := strings.HasPrefix(path, "@")
	if !strings.HasPrefix(path, "/") && !abstract || strings.HasSuffix(path, "/") || len(path) > 107 ||
		strings.Contains(path, "\x00") {
		f.errorf("is %q, want an absolute path of at most 107 bytes after unix://, or @NAME", path)
	}
}

// ownSocket requires a path of a socket that Envoy opens, or to which all inbound traffic goes: a socket of the proxy's
// agent would be removed, or opened to clients.
func ownSocket(f field, path string) {
	unixPath(f, path)
	if model.AgentSocket(path) {
		f.errorf("is %q, want the shortest form of a path outside of the directories of proxies' agents and of the system, such as unix:///run/app.sock", "unix://"+path)
	}
}

func workloadEntry(f field, e *networking.WorkloadEntry) {
	path, unix := strings.CutPrefix(e.Address, "unix://")
	switch _, err := netip.ParseAddr(e.Address); {
	case err == nil:
	case unix:
		unixPath(f.at("address"), path)
		if len(e.Ports) > 0 {
			f.at("ports").errorf("are given, and a Unix socket has none")
		}
	case e.Address == "" && e.Network == "":
		f.at("address").errorf("is missing")
	case e.Address == "":
		f.at("address").warnf("is missing: only proxies of other networks reach the endpoint, by the gateways of network %q", e.Network)
	default:
		f.at("address").host(e.Address, false)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Ports)) {
		f.at("ports").key(name).label(name)
		f.at("ports").key(name).port(e.Ports[name])
	}
	f.at("labels").labels(e.Labels)
	weight(f.at("weight"), e.Weight)
}

func workloadGroup(f field, g *networking.WorkloadGroup) {
	if g.Template == nil {
		f.at("template").errorf("is missing")
	}
	f.at("metadata").at("labels").labels(g.GetMetadata().GetLabels())
	for _, name := range slices.Sorted(maps.Keys(g.GetTemplate().GetPorts())) {
		f.at("template").at("ports").key(name).port(g.Template.Ports[name])
	}
	f.at("template").at("labels").labels(g.GetTemplate().GetLabels())
	weight(f.at("template").at("weight"), g.GetTemplate().GetWeight())
	probe(f.at("probe"), g.Probe)
}

func probe(f field, p *networking.ReadinessProbe) {
	for name, n := range inOrder(map[string]int32{
		"initialDelaySeconds": p.GetInitialDelaySeconds(), "timeoutSeconds": p.GetTimeoutSeconds(),
		"periodSeconds":    p.GetPeriodSeconds(),
		"successThreshold": p.GetSuccessThreshold(), "failureThreshold": p.GetFailureThreshold(),
	}) {
		f.at(name).count(n)
	}
	switch m := p.GetHealthCheckMethod().(type) {
	case nil:
		if p != nil {
			f.errorf("has no method, want httpGet, tcpSocket, grpc or exec")
		}
	case *networking.ReadinessProbe_HttpGet:
		f.at("httpGet").at("port").port(m.HttpGet.GetPort())
		for i, h := range m.HttpGet.GetHttpHeaders() {
			at := f.at("httpGet").at("httpHeaders").item(i).at("name")
			if !probeHeader.MatchString(h.GetName()) {
				at.errorf("is %q, want letters, digits, '-' and '_'", h.GetName())
			}
		}
	case *networking.ReadinessProbe_TcpSocket:
		f.at("tcpSocket").at("port").port(m.TcpSocket.GetPort())
	case *networking.ReadinessProbe_Grpc:
		f.at("grpc").at("port").port(m.Grpc.GetPort())
	case *networking.ReadinessProbe_Exec:
		f.at("exec").at("command").required(len(m.Exec.GetCommand()))
	}
}
