package truth

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
)

// Draw makes a request to a listener that meets most conditions of one of its routes, or misses them by little.
func (has Parts) Draw(draw *rand.Rand, at Listener) *Exchange {
	e := &Exchange{}
	e.Method, e.Path = "GET", "/"
	if len(at.configs) > 0 {
		has.hosts = slices.DeleteFunc(slices.Clone(has.hosts), func(h virtualHost) bool { return h.config != "" && !slices.Contains(at.configs, h.config) })
	}
	h := virtualHost{Domains: []string{"nobody.test"}}
	if len(has.hosts) > 0 {
		h = has.hosts[draw.IntN(len(has.hosts))]
	}
	e.To = has.host(draw, h)
	if len(h.Routes) == 0 {
		return e
	}
	m := h.Routes[draw.IntN(len(h.Routes))].Match
	e.Path = Spelled(draw, m.draw(draw))
	for _, header := range m.Headers {
		value := header.draw(draw)
		switch {
		case draw.IntN(5) == 0 || header.InvertMatch && draw.IntN(2) == 0:
		case header.Name == ":method":
			e.Method = value
		case header.Name == ":authority":
			e.To = value
		case !strings.HasPrefix(header.Name, ":") && value != "":
			e.Header = append(e.Header, header.Name+":"+value)
		}
	}
	if !sendable(e.To, e.Path) {
		e.Path = "/"
	}
	return e
}

// host draws a host of a virtual host's domains, in other letters or with a port or dot, now and then. A host outside of the mesh is an address here: Envoy
// would ask the machine's DNS for a name.
func (has Parts) host(draw *rand.Rand, h virtualHost) string {
	host := h.Domains[draw.IntN(len(h.Domains))]
	switch {
	case host == "*" && h.Name == "allow_any":
		return has.Outside
	case host == "*":
		return "nobody.test"
	case strings.HasPrefix(host, "*"):
		host = "any" + host[1:]
	case strings.HasSuffix(host, "*"):
		host = host[:len(host)-1] + "1"
	}
	if _, err := netip.ParseAddr(host); err == nil && has.knows("*") {
		return has.Outside // the address of a service, at a port at which nobody listens
	}
	if strings.ContainsAny(host, ":[") {
		return host
	}
	switch with := host + ":80"; draw.IntN(12) {
	case 0:
		host = strings.ToUpper(host[:1]) + host[1:]
	case 1:
		if has.knows(with) || !has.knows("*") {
			host = with
		}
	}
	return host
}

// knows reports whether a virtual host has a domain.
func (has Parts) knows(domain string) bool {
	return slices.ContainsFunc(has.hosts, func(h virtualHost) bool { return slices.Contains(h.Domains, domain) })
}

// draw makes a path, with a query if the match wants one.
func (m routeMatch) draw(draw *rand.Rand) string {
	path := m.Path + m.Prefix + m.PathSeparatedPrefix
	switch {
	case m.SafeRegex.Regex != "":
		path = sample(draw, m.SafeRegex.Regex)
	case m.Path == "" && draw.IntN(2) == 0:
		path = strings.TrimSuffix(path, "/") + "/x"
	}
	switch draw.IntN(8) {
	case 0:
		path = path[:max(1, len(path)-1)]
	case 1:
		path += "x"
	case 2:
		path = strings.ToUpper(path)
	}
	query := url.Values{}
	for _, q := range m.QueryParameters {
		if draw.IntN(5) > 0 {
			query.Set(q.Name, q.draw(draw))
		}
	}
	if draw.IntN(6) == 0 {
		query.Set("drawn", "1")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// Spelled returns a path in another spelling now and then. Whether proxies take it for the same one is what pathNormalization
// decides.
func Spelled(draw *rand.Rand, written string) string {
	path, query, asked := strings.Cut(written, "?")
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 {
		return written
	}
	last := len(path) - 1
	switch draw.IntN(40) {
	case 0:
		path = path[:slash] + "/" + path[slash:]
	case 1:
		path = path[:slash] + "/./" + path[slash+1:]
	case 2:
		path = path[:slash] + "/x/.." + path[slash:]
	case 3:
		path = path[:slash+1] + "%2F" + path[slash+1:]
	case 4:
		path = path[:slash+1] + "%2f%2e%2E%5C" + path[slash+1:]
	case 5:
		path = fmt.Sprintf("%s%%%02X", path[:last], path[last])
	}
	if asked {
		path += "?" + query
	}
	if !sendable("a.test", path) { // an escape is cut in two
		return written
	}
	return path
}

// draw makes a value that a matcher takes, most of the time.
func (m textMatcher) draw(draw *rand.Rand) string {
	s := m.StringMatch
	value := s.Exact
	switch {
	case s.Prefix != "":
		value = s.Prefix + "x"
	case s.Suffix != "":
		value = "x" + s.Suffix
	case s.Contains != "":
		value = "x" + s.Contains + "x"
	case s.SafeRegex.Regex != "":
		value = sample(draw, s.SafeRegex.Regex)
	case value == "":
		value = "x"
	}
	if draw.IntN(8) == 0 && !strings.HasPrefix(m.Name, ":") {
		value += "y"
	}
	return value
}

// sendable reports whether Go's client sends a path as it is written.
func sendable(host, path string) bool {
	r, err := http.NewRequest(http.MethodGet, "http://"+host+path, nil)
	return err == nil && r.URL.RequestURI() == path
}

// sample makes a text that a regular expression matches.
func sample(draw *rand.Rand, of string) string {
	parsed, err := syntax.Parse(of, syntax.Perl)
	if err != nil {
		return "/"
	}
	var b strings.Builder
	write(draw, &b, parsed)
	return b.String()
}

func write(draw *rand.Rand, b *strings.Builder, of *syntax.Regexp) {
	times := 1
	switch of.Op {
	case syntax.OpLiteral:
		b.WriteString(string(of.Rune))
		return
	case syntax.OpCharClass:
		b.WriteRune(of.Rune[0])
		return
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
		return
	case syntax.OpAlternate:
		write(draw, b, of.Sub[draw.IntN(len(of.Sub))])
		return
	case syntax.OpStar, syntax.OpQuest:
		times = draw.IntN(2)
	case syntax.OpPlus:
		times = 1 + draw.IntN(2)
	case syntax.OpRepeat:
		times = of.Min
	}
	for range times {
		for _, sub := range of.Sub {
			write(draw, b, sub)
		}
	}
}

// virtualHost is the part of Envoy's VirtualHost of which requests are made.
type virtualHost struct {
	Name    string
	Routes  []struct{ Match routeMatch }
	Domains []string
	config  string // of routes
}

type routeMatch struct {
	Path, Prefix        string
	PathSeparatedPrefix string        `json:"path_separated_prefix"`
	SafeRegex           expression    `json:"safe_regex"`
	QueryParameters     []textMatcher `json:"query_parameters"`
	Headers             []textMatcher
}

type expression struct{ Regex string }

type textMatcher struct {
	Name        string
	StringMatch struct {
		Exact, Prefix, Suffix, Contains string
		SafeRegex                       expression `json:"safe_regex"`
	} `json:"string_match"`
	InvertMatch bool `json:"invert_match"`
}

// Parts are those of an Envoy's configuration of which requests are made.
type Parts struct {
	Outside    string // host:port of a server that no object names
	Redirected bool   // requests get to listeners by the kernel's redirection: those that do not bind are taken, and not the others
	Listeners  []Listener
	hosts      []virtualHost
}

// Listener is one that is not for the workload's own traffic.
type Listener struct {
	Address string   // host:port
	configs []string // of routes
}

// Read collects the parts of a dump.
func (has *Parts) Read(dump any) {
	switch v := dump.(type) {
	case []any:
		for _, one := range v {
			has.Read(one)
		}
	case map[string]any:
		if state, ok := v["active_state"].(map[string]any); ok {
			has.listener(state["listener"])
		}
		if name, _ := v["name"].(string); strings.HasPrefix(name, "outbound_.") { // a cluster that is chosen by the server name
			has.hosts = append(has.hosts, virtualHost{Domains: []string{name}})
		}
		for key, one := range v {
			if key == "virtual_hosts" {
				var hosts []virtualHost
				remade(one, &hosts)
				for _, h := range hosts {
					h.config, _ = v["name"].(string)
					has.hosts = append(has.hosts, h)
				}
			} else {
				has.Read(one)
			}
		}
	}
}

func remade(from, into any) {
	if text, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(text, into)
	}
}

func (has *Parts) listener(from any) {
	var l struct {
		Address struct {
			SocketAddress struct {
				Address   string
				PortValue int `json:"port_value"`
			} `json:"socket_address"`
		}
		BindToPort *bool  `json:"bind_to_port"`
		Direction  string `json:"traffic_direction"`
	}
	remade(from, &l)
	at := l.Address.SocketAddress
	switch binds := l.BindToPort == nil || *l.BindToPort; {
	case l.Direction == "INBOUND" || binds == has.Redirected || binds && strings.Contains(at.Address, ":"):
		return
	case binds && at.Address == "0.0.0.0":
		at.Address = "127.0.0.1"
	}
	has.Listeners = append(has.Listeners, Listener{net.JoinHostPort(at.Address, fmt.Sprint(at.PortValue)), configs(from)})
}

// configs returns the names of the route configurations that a listener has.
func configs(from any) (names []string) {
	switch v := from.(type) {
	case []any:
		for _, one := range v {
			names = append(names, configs(one)...)
		}
	case map[string]any:
		for key, one := range v {
			if name, ok := one.(string); ok && key == "route_config_name" {
				names = append(names, name)
			} else {
				names = append(names, configs(one)...)
			}
		}
	}
	return names
}
