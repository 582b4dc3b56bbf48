package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// replayed is how many requests a scenario's proxy is sent that are compared with what explain says.
const replayed = 200

// replay compares what explain says of requests with what the Envoy of a scenario does, at a moment at which everything that the test has applied has
// arrived. The requests are made of what Envoy itself has: its listeners, domains and conditions, met and missed. Discovery, which runs, is asked about
// each.
func (w *world) replay(p *lab.Proxy) {
	t := w.T
	t.Helper()
	w.settled(p)
	text, err := lab.Get("http://" + p.Admin + "/config_dump")
	w.Check(err)
	var dump any
	w.Check(json.Unmarshal([]byte(text), &dump))
	has := parts{outside: w.outside()}
	has.read(dump)
	if w.shared {
		has.listeners = slices.DeleteFunc(has.listeners, func(l listening) bool { return l.address != p.HTTP })
	}
	if len(has.listeners) == 0 {
		t.Fatalf("nothing listens in\n%s", text)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	by := map[string]way{}
	var all []*exchange
	for i := range replayed {
		at := has.listeners[i%len(has.listeners)]
		e := has.draw(draw, at)
		e.From = p.ID
		if at.address != p.HTTP {
			e.Address, e.TCP, e.TLS = at.address, draw.IntN(6) == 0, draw.IntN(3) == 0
			e.TLS = e.TLS && !e.TCP
		}
		if by[e.Address] == nil {
			by[e.Address] = direct(at.address)
			if at.address == p.HTTP {
				by[e.Address] = through(p.HTTP)
			}
		}
		all = append(all, e)
	}
	w.compare(p, w.running, func(e *exchange) { by[e.Address](e) }, all, 1)
}

// settled waits until a proxy has answered for everything that discovery has pushed.
func (w *world) settled(p *lab.Proxy) {
	w.T.Helper()
	page := func(path string, into any) error {
		text, err := lab.Get("http://" + w.Discovery.HTTP + path)
		if err == nil {
			err = json.Unmarshal([]byte(text), into)
		}
		return err
	}
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		var pushes, clients []struct {
			Node       string
			Generation int64
		}
		if err := page("/debug/push_status", &pushes); err != nil {
			return err
		}
		if err := page("/debug/adsz", &clients); err != nil {
			return err
		}
		newest := int64(0)
		for _, push := range pushes {
			newest = max(newest, push.Generation)
		}
		for _, c := range clients {
			if c.Node == p.ID && c.Generation >= newest {
				return nil
			}
		}
		return fmt.Errorf("%s has not answered for generation %d: %+v", p.ID, newest, clients)
	}))
}

// outside is the address of a server that no object names.
func (w *world) outside() string {
	b := w.Backend("outside")
	return fmt.Sprintf("%s:%d", b.IP, b.Port)
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

// parts are those of an Envoy's configuration of which requests are made.
type parts struct {
	listeners []listening
	hosts     []virtualHost
	outside   string
}

// listening is a listener that binds and is not for the workload's own traffic.
type listening struct {
	address string   // host:port
	configs []string // of routes
}

// read collects the parts of a dump.
func (has *parts) read(dump any) {
	switch v := dump.(type) {
	case []any:
		for _, one := range v {
			has.read(one)
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
				has.read(one)
			}
		}
	}
}

func remade(from, into any) {
	if text, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(text, into)
	}
}

func (has *parts) listener(from any) {
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
	if l.Direction == "INBOUND" || l.BindToPort != nil && !*l.BindToPort || strings.Contains(at.Address, ":") {
		return
	}
	if at.Address == "0.0.0.0" {
		at.Address = "127.0.0.1"
	}
	has.listeners = append(has.listeners, listening{fmt.Sprintf("%s:%d", at.Address, at.PortValue), configs(from)})
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
