package truth

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
)

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
