package config

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// mesh is the reserved gateway that stands for all sidecars.
const mesh = "mesh"

func virtualService(f field, v *networking.VirtualService) {
	inMesh := len(v.Gateways) == 0 || slices.Contains(v.Gateways, mesh)
	hosts := unique{}
	for i, host := range v.Hosts {
		at := f.at("hosts").item(i)
		_, err := netip.ParseAddr(host)
		switch {
		case host == "*" && !inMesh:
		case err != nil:
			at.host(serverNameHost(host), true)
		}
		hosts.add(at, strings.ToLower(host))
	}
	gateways := unique{}
	for i, name := range v.Gateways {
		if name != mesh {
			f.at("gateways").item(i).gateway(name)
		}
		if strings.Contains(name, ".") && !strings.Contains(name, "/") {
			f.at("gateways").item(i).warnf("is %q, the old form of %s: want that", name, model.DefaultDomain.QualifyGateway(name, ""))
		}
		gateways.add(f.at("gateways").item(i), name)
	}
	f.at("exportTo").exportTo(v.ExportTo)
	delegate := len(v.Hosts) == 0 && len(v.Http) > 0 && len(v.Tls)+len(v.Tcp)+len(v.Gateways) == 0
	if !delegate {
		f.at("hosts").required(len(v.Hosts))
	}
	if len(v.Http)+len(v.Tls)+len(v.Tcp) == 0 {
		f.errorf("has no routes, want http, tls or tcp")
	}
	for i, route := range v.Http {
		httpRoute(f.at("http").item(i), route, delegate)
	}
	if !delegate && inMesh && len(v.Gateways) < 2 {
		claimsInMesh(f.at("http"), v.Http)
	}
	shadows(f.at("http"), v.Http)
	covered := coverOf(v.Hosts)
	for i, route := range v.Tls {
		tlsRoute(f.at("tls").item(i), route, covered)
	}
	for i, route := range v.Tcp {
		tcpRoute(f.at("tcp").item(i), route)
	}
	shadowed(f.at("tls"), "tls", v.Tls, (*networking.TLSRoute).GetMatch)
	shadowed(f.at("tcp"), "tcp", v.Tcp, (*networking.TCPRoute).GetMatch)
}

// claimsInMesh warns of matches that no request of a sidecar has.
func claimsInMesh(f field, all []*networking.HTTPRoute) {
	for i, route := range all {
		for j, m := range route.GetMatch() {
			for part, matches := range inOrder(map[string]map[string]*networking.StringMatch{"headers": m.GetHeaders(), "withoutHeaders": m.GetWithoutHeaders()}) {
				for _, name := range slices.Sorted(maps.Keys(matches)) {
					if path, _ := model.ParseRoutingClaim(name); path != nil {
						f.item(i).at("match").item(j).at(part).key(name).warnf("is about the claims of a token, which only gateways know: no request of a sidecar matches; want gateways")
					}
				}
			}
		}
	}
}

// serverName matches the names of servers by which sidecars of a mesh call each other through a gateway.
var serverName = regexp.MustCompile(`^outbound_\.[0-9]{1,5}_\.([-a-zA-Z0-9]*)_\.`)

// serverNameHost returns the host in the name of a server, else the name.
func serverNameHost(name string) string {
	return name[len(serverName.FindString(name)):]
}

// httpRoute checks a route, of a delegate if delegate is true.
func httpRoute(f field, r *networking.HTTPRoute, delegate bool) {
	for i, m := range r.Match {
		httpMatch(f.at("match").item(i), m)
	}
	oneAction(f, r)
	f.at("timeout").timeout(r.Timeout)
	httpDestinations(f.at("route"), r.Route)
	headers(f.at("headers"), r.Headers)
	authorityOnce(f, r)
	redirect(f.at("redirect"), r.Redirect)
	if d := r.DirectResponse; d != nil {
		directResponse(f.at("directResponse"), d)
	}
	if d := r.Delegate; d != nil {
		delegateTo(f.at("delegate"), d, delegate)
	}
	rewrite(f.at("rewrite"), r.Rewrite)
	retries(f.at("retries"), r.Retries)
	if all, one := r.Timeout.AsDuration(), r.GetRetries().GetPerTryTimeout().AsDuration(); all > 0 && one > all {
		f.at("retries").at("perTryTimeout").warnf("is %v, and the timeout of all tries together is %v: no try lasts that long", one, all)
	}
	fault(f.at("fault"), r.Fault)
	mirror(f, r)
	cors(f.at("corsPolicy"), r.CorsPolicy)
}

// oneAction requires exactly one action, and nothing that only a request sent on can have beside one that sends it nowhere.
func oneAction(f field, r *networking.HTTPRoute) {
	var does []string
	for _, action := range []struct {
		name  string
		given bool
	}{
		{"route", len(r.Route) > 0},
		{"redirect", r.Redirect != nil},
		{"directResponse", r.DirectResponse != nil},
		{"delegate", r.Delegate != nil},
	} {
		if action.given {
			does = append(does, action.name)
		}
	}
	switch {
	case len(does) == 0:
		f.at("route").errorf("is missing")
	case len(does) > 1:
		f.at(does[1]).errorf("is given beside %s, want one of route, redirect, directResponse and delegate", does[0])
	}
	if r.Redirect != nil || r.DirectResponse != nil {
		notBeside := func(name string, given bool) {
			if given {
				f.at(name).errorf("is given beside %s, which sends the request nowhere", does[0])
			}
		}
		notBeside("rewrite", r.Rewrite != nil)
		notBeside("fault", r.Fault != nil)
		notBeside("mirror", r.Mirror != nil || len(r.Mirrors) > 0)
	}
}

// delegateTo requires the name of a VirtualService; within a delegate there is no other.
func delegateTo(f field, d *networking.Delegate, within bool) {
	if within {
		f.errorf("is given in a delegate, which cannot delegate again")
	}
	if f.at("name").required(len(d.Name)) && !objectName.MatchString(d.Name) {
		f.at("name").errorf("is %q, want the name of a VirtualService", d.Name)
	}
	if d.Namespace != "" {
		f.at("namespace").label(d.Namespace)
	}
}

// authorityOnce warns of a host that is set in two ways.
func authorityOnce(f field, r *networking.HTTPRoute) {
	if r.GetRewrite().GetAuthority() == "" {
		return
	}
	for name := range inOrder(r.GetHeaders().GetRequest().GetSet()) {
		if strings.EqualFold(name, "host") || name == ":authority" {
			f.at("headers").at("request").at("set").key(name).errorf("is given beside rewrite.authority, want one of them")
		}
	}
}

func httpDestinations(f field, route []*networking.HTTPRouteDestination) {
	var all []int32
	for i, d := range route {
		at := f.item(i)
		destination(at.at("destination"), d.GetDestination())
		headers(at.at("headers"), d.GetHeaders())
		if d.GetWeight() < 0 {
			at.at("weight").errorf("is %d, want 0 or more", d.Weight)
		}
		all = append(all, d.GetWeight())
	}
	sum := weights(f, all)
	for i, d := range route {
		f.item(i).at("weight").warnMissingWeight(d.GetWeight(), sum)
	}
}

// warnMissingWeight warns of a weight that is missing beside others: it is 0.
func (f field) warnMissingWeight(weight int32, sum int64) {
	if weight == 0 && sum > 0 && !f.given() {
		f.warnf("is missing beside others: the destination gets nothing; want a weight, or 0 to say so")
	}
}

// likePercent is a weight that is meant as a percentage; smaller ones may be a ratio, as 1 to 3 is.
const likePercent = 10

// weights checks that at least one destination gets requests, and returns the sum. A single destination gets all, with
// any weight.
func weights(f field, all []int32) (sum int64) {
	given, most := 0, int32(0)
	for _, weight := range all {
		sum, most = sum+int64(weight), max(most, weight)
		if weight > 0 {
			given++
		}
	}
	switch {
	case len(all) > 1 && sum == 0:
		f.errorf("the weights add up to 0, want more")
	case sum > 1<<31:
		f.errorf("the weights add up to %d, want at most %d", sum, 1<<31)
	case given > 1 && sum != 100 && most >= likePercent:
		f.warnf("the weights add up to %d, not to 100: each destination gets its part of the sum", sum)
	}
	return sum
}

// destination requires a service's host, which may be the wildcard of a ServiceEntry.
func destination(f field, d *networking.Destination) {
	if _, err := netip.ParseAddr(d.GetHost()); err != nil {
		f.at("host").host(d.GetHost(), true)
	}
	if d.GetSubset() != "" {
		f.at("subset").label(d.GetSubset())
	}
	if d.GetPort() != nil {
		f.at("port").at("number").port(d.Port.Number)
	}
}

func httpMatch(f field, m *networking.HTTPMatchRequest) {
	for name, match := range inOrder(map[string]*networking.StringMatch{
		"uri": m.GetUri(), "scheme": m.GetScheme(), "method": m.GetMethod(), "authority": m.GetAuthority(),
	}) {
		if match == nil {
			continue
		}
		if match.MatchType == nil {
			f.at(name).errorf("is empty, want exact, prefix or regex")
		}
		if name != "uri" || match.GetRegex() != "*" {
			if prefix, is := match.MatchType.(*networking.StringMatch_Prefix); name == "uri" && is && prefix.Prefix == "" {
				continue // every path
			}
			stringMatch(f.at(name), match)
		}
	}
	valueMatches(f.at("headers"), m.GetHeaders())
	valueMatches(f.at("withoutHeaders"), m.GetWithoutHeaders())
	for _, name := range slices.Sorted(maps.Keys(m.GetQueryParams())) {
		at := f.at("queryParams").key(name)
		at.required(len(name))
		if match := m.QueryParams[name]; match.GetRegex() != "*" {
			stringMatch(at, match)
		}
	}
	if m.GetPort() != 0 {
		f.at("port").port(m.Port)
	}
	f.at("sourceLabels").labels(m.GetSourceLabels())
	sources(f, m.GetGateways(), m.GetSourceNamespace())
}

func sources(f field, gateways []string, namespace string) {
	for i, name := range gateways {
		if name != mesh {
			f.at("gateways").item(i).gateway(name)
		}
	}
	if namespace != "" {
		f.at("sourceNamespace").label(namespace)
	}
}

func valueMatches(f field, matches map[string]*networking.StringMatch) {
	for _, name := range slices.Sorted(maps.Keys(matches)) {
		at := f.key(name)
		path, claim := model.ParseRoutingClaim(name)
		switch {
		case claim:
			if path == nil {
				at.errorf("names no claim of a token, want @request.auth.claims.NAME or @request.auth.claims[NAME], with further names for what is within")
			}
		case !headerName.MatchString(name):
			at.errorf("the header's name is %q, want a token of HTTP", name)
		}
		// No value, and Istio's "*", match if the header exists.
		if match := matches[name]; match.GetRegex() != "*" {
			stringMatch(at, match)
		}
	}
}

func stringMatch(f field, m *networking.StringMatch) {
	switch match := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		f.at("exact").text(match.Exact)
	case *networking.StringMatch_Prefix:
		if f.at("prefix").required(len(match.Prefix)) {
			f.at("prefix").text(match.Prefix)
		}
	case *networking.StringMatch_Regex:
		if f.at("regex").required(len(match.Regex)) {
			f.at("regex").regex(match.Regex)
		}
	}
}

// text requires characters that a header or a path can hold: Envoy refuses others everywhere.
func (f field) text(s string) {
	if strings.ContainsAny(s, "\x00\r\n") {
		f.errorf("is %q, want text on one line", s)
	}
}

func tlsRoute(f field, r *networking.TLSRoute, hosts cover) {
	f.at("match").required(len(r.Match))
	for i, m := range r.Match {
		at := f.at("match").item(i)
		at.at("sniHosts").required(len(m.GetSniHosts()))
		for j, sni := range m.GetSniHosts() {
			if _, err := netip.ParseAddr(sni); err == nil {
				at.at("sniHosts").item(j).warnf("is %q: clients of an address name no server, so this matches none", sni)
				continue
			}
			if strings.HasPrefix(sni, "*") && sni != "*" && !strings.HasPrefix(sni, "*.") {
				at.at("sniHosts").item(j).errorf("is %q, want a whole label for the wildcard", sni)
			} else if sni != "*" {
				at.at("sniHosts").item(j).host(serverNameHost(sni), true)
			}
			if !hosts.covers(sni) {
				at.at("sniHosts").item(j).errorf("is %q, want one that spec.hosts stand for: %s", sni, hosts.text)
			}
		}
		l4Match(at, m.GetDestinationSubnets(), m.GetPort(), m.GetSourceLabels(), m.GetGateways(),
			m.GetSourceNamespace())
	}
	routeDestinations(f.at("route"), r.Route)
}

// cover is the set of names for which the hosts of an object stand.
type cover struct {
	whole    map[string]bool // hosts, in lower case
	suffixes map[string]bool // of wildcards
	text     string          // the hosts, for messages
}

func coverOf(hosts []string) cover {
	const most = 10 // of the hosts in a message
	c := cover{map[string]bool{}, map[string]bool{}, strings.Join(hosts[:min(len(hosts), most)], ", ")}
	for _, host := range hosts {
		host = strings.ToLower(host)
		c.whole[host] = true
		if suffix, wildcard := strings.CutPrefix(host, "*"); wildcard {
			c.suffixes[suffix] = true
		}
	}
	return c
}

// covers reports whether a host, which may be a wildcard, matches all names that sni matches.
func (c cover) covers(sni string) bool {
	const longest = 255 // of a name; a longer one is a fault already
	if sni = strings.ToLower(sni); len(sni) > longest || c.whole[sni] {
		return true
	}
	if first, _, found := strings.Cut(sni, "."); found && c.whole[first] {
		return true // a short name
	}
	rest := strings.TrimPrefix(sni, "*")
	for i := range len(rest) + 1 {
		if c.suffixes[rest[i:]] {
			return true
		}
	}
	return false
}

func tcpRoute(f field, r *networking.TCPRoute) {
	for i, m := range r.Match {
		at := f.at("match").item(i)
		if m.GetSourceSubnet() != "" {
			at.at("sourceSubnet").subnet(m.SourceSubnet)
		}
		l4Match(at, m.GetDestinationSubnets(), m.GetPort(), m.GetSourceLabels(), m.GetGateways(),
			m.GetSourceNamespace())
	}
	routeDestinations(f.at("route"), r.Route)
}

func l4Match(f field, subnets []string, port uint32, labels map[string]string, gateways []string, namespace string) {
	for i, s := range subnets {
		f.at("destinationSubnets").item(i).subnet(s)
	}
	if port != 0 {
		f.at("port").port(port)
	}
	f.at("sourceLabels").labels(labels)
	sources(f, gateways, namespace)
}

func routeDestinations(f field, route []*networking.RouteDestination) {
	f.required(len(route))
	var all []int32
	for i, d := range route {
		destination(f.item(i).at("destination"), d.GetDestination())
		if d.GetWeight() < 0 {
			f.item(i).at("weight").errorf("is %d, want 0 or more", d.Weight)
		}
		all = append(all, d.GetWeight())
	}
	sum := weights(f, all)
	for i, d := range route {
		f.item(i).at("weight").warnMissingWeight(d.GetWeight(), sum)
	}
}
