package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// cluster adds what becomes of the requests that go to a cluster. sent has what the route made of the request.
func (j *judge) cluster(name string, share float64, sent Outcome, r Request) {
	sent.Share = share
	c, assigned := j.served.Cluster(name)
	if c == nil {
		j.step(Step{Kind: "cluster", Name: name, Text: "is not there", Unmade: notThere})
		sent.Status, sent.Flag, sent.Reason = 503, "NC", "the proxy has no cluster "+name+": its service, port or subset is missing"
		j.refuse(sent, r)
		return
	}
	sent.Cluster = name
	j.pass(Step{Kind: "cluster", Name: name, Text: boundsOf(c)}, j.origins(Part{Cluster: name}))
	all, resolved := endpointsOf(c, assigned)
	switch {
	case resolved != "" && len(all) == 0:
		sent.Resolved, sent.Reason = true, "sent to "+resolved
		if j.served.Server == nil || !original(c) || r.To.Addr() == nowhere {
			j.end(sent)
			return
		}
		h := helloTo(c, nil)
		sent.Endpoints = []Endpoint{{Address: r.To.String(), Health: "not known", TLS: h.text(), hello: h}}
		j.arrive(sent, r) // a sidecar may be there
		return
	case resolved != "":
		sent.Resolved = true
	}
	chosen := j.eligible(c, all)
	if len(chosen) == 0 {
		sent.Status, sent.Flag, sent.Reason = 503, "UH", fmt.Sprintf("none of its %d endpoints takes requests", count(all))
		j.refuse(sent, r)
		return
	}
	sent.Endpoints = chosen
	j.arrive(sent, r)
}

// refuse adds that the proxy answers itself; a connection without HTTP is closed.
func (j *judge) refuse(o Outcome, r Request) {
	o.Limits = Limits{}
	if r.TCP {
		o.Status, o.Closed, o.Reason = 0, true, "the connection is closed: "+o.Reason
	}
	j.end(o)
}

func count(all []*endpointv3.LocalityLbEndpoints) (n int) {
	for _, l := range all {
		n += len(l.LbEndpoints)
	}
	return n
}

// original reports whether a cluster sends to the address to which the program connects.
func original(c *clusterv3.Cluster) bool {
	return c.GetType() == clusterv3.Cluster_ORIGINAL_DST && c.GetClusterType() == nil
}

// endpointsOf returns the endpoints of a cluster, and, if Envoy finds the addresses itself, how.
func endpointsOf(c *clusterv3.Cluster, assigned *endpointv3.ClusterLoadAssignment) (all []*endpointv3.LocalityLbEndpoints, resolved string) {
	custom := c.GetClusterType().GetName()
	switch {
	case original(c):
		return nil, "the address to which the program connects"
	case strings.Contains(custom, "dynamic_forward_proxy"):
		return nil, "the address that DNS has for its host"
	case custom != "" || c.GetType() == clusterv3.Cluster_STRICT_DNS || c.GetType() == clusterv3.Cluster_LOGICAL_DNS:
		return c.GetLoadAssignment().GetEndpoints(), "the addresses that DNS has"
	case c.GetType() != clusterv3.Cluster_EDS:
		return c.GetLoadAssignment().GetEndpoints(), ""
	}
	return assigned.GetEndpoints(), ""
}

const (
	panicDefault     = 50.0 // percent
	overprovisioning = 1.4
)

// eligible returns the endpoints that may get a request: of each priority that gets a part of the load those that are healthy, or, in a panic, all.
func (j *judge) eligible(c *clusterv3.Cluster, all []*endpointv3.LocalityLbEndpoints) (out []Endpoint) {
	byPriority := map[uint32][]Endpoint{}
	for _, l := range all {
		for _, e := range l.LbEndpoints {
			byPriority[l.Priority] = append(byPriority[l.Priority], j.endpoint(c, l, e))
		}
	}
	threshold := panicDefault
	if own := c.GetCommonLbConfig().GetHealthyPanicThreshold(); own != nil {
		threshold = own.Value
	}
	priorities := slices.Sorted(maps.Keys(byPriority))
	healthy, part, sound := map[uint32][]Endpoint{}, map[uint32]float64{}, 0.0
	for p, list := range byPriority {
		healthy[p] = slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return e.Health != "healthy" })
		part[p] = float64(len(healthy[p])) / float64(len(list))
		sound += min(1, overprovisioning*part[p])
	}
	panics := func(p uint32) bool { return sound < 1 && part[p]*100 < threshold }
	everywhere := !slices.ContainsFunc(priorities, func(p uint32) bool { return !panics(p) })
	left := min(1, sound)
	for _, p := range priorities {
		load := min(left, overprovisioning*part[p])
		left -= load
		switch {
		case everywhere, load > 0 && panics(p): // where all are in a panic, each has load by the number of its endpoints
			out = append(out, byPriority[p]...)
		case load > 0:
			out = append(out, healthy[p]...)
		}
	}
	return out
}

func (j *judge) endpoint(c *clusterv3.Cluster, l *endpointv3.LocalityLbEndpoints, e *endpointv3.LbEndpoint) Endpoint {
	out := Endpoint{Address: addressOf(e.GetEndpoint().GetAddress()), Priority: l.Priority, Health: "healthy", hello: helloTo(c, e)}
	out.TLS = out.hello.text()
	switch e.HealthStatus {
	case corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_HEALTHY:
	default:
		out.Health = strings.ToLower(e.HealthStatus.String())
	}
	where := l.GetLocality()
	out.Locality = strings.TrimRight(where.GetRegion()+"/"+where.GetZone()+"/"+where.GetSubZone(), "/")
	out.Origins = j.origins(Part{Cluster: c.Name, Endpoint: out.Address}).By
	return out
}

func addressOf(a *corev3.Address) string {
	if s := a.GetSocketAddress(); s != nil {
		return join(s.Address, s.GetPortValue())
	}
	return a.GetPipe().GetPath()
}

func join(address string, port uint32) string {
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return fmt.Sprintf("%s:%d", address, port)
}

// boundsOf says what a cluster does beside its endpoints.
func boundsOf(c *clusterv3.Cluster) string {
	out := []string{"connects within " + duration(c.GetConnectTimeout())}
	if o := c.OutlierDetection; o != nil {
		out = append(out, "ejects endpoints that fail")
	}
	const unlimited = 1<<32 - 1
	for _, t := range c.GetCircuitBreakers().GetThresholds() {
		for name, limit := range map[string]uint32{
			"connections": t.GetMaxConnections().GetValue(), "requests": t.GetMaxRequests().GetValue(), "waiting requests": t.GetMaxPendingRequests().GetValue(),
		} {
			if limit != 0 && limit != unlimited {
				out = append(out, fmt.Sprintf("at most %d %s", limit, name))
			}
		}
	}
	slices.Sort(out[1:])
	return strings.Join(out, "; ")
}
