package proxystatus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// dumped is the part of Envoy's /config_dump that comes from a control plane.
type dumped struct {
	Configs []struct {
		Bootstrap struct {
			Node struct {
				ID string `json:"id"`
			} `json:"node"`
		} `json:"bootstrap"`
		Clusters  []dumpedOne `json:"dynamic_active_clusters"`
		Warming   []dumpedOne `json:"dynamic_warming_clusters"`
		Listeners []struct {
			Active  *dumpedOne `json:"active_state"`
			Warming *dumpedOne `json:"warming_state"`
		} `json:"dynamic_listeners"`
		Routes         []dumpedOne `json:"dynamic_route_configs"`
		Endpoints      []dumpedOne `json:"dynamic_endpoint_configs"`
		Secrets        []dumpedOne `json:"dynamic_active_secrets"`
		WarmingSecrets []dumpedOne `json:"dynamic_warming_secrets"`
	} `json:"configs"`
}

type dumpedOne struct {
	Name   string `json:"name"` // of a secret
	Secret struct {
		Certificate struct {
			Chain *dumpedText `json:"certificate_chain"`
		} `json:"tls_certificate"`
		Validation struct {
			Roots *dumpedText `json:"trusted_ca"`
		} `json:"validation_context"`
	} `json:"secret"`
	Cluster  json.RawMessage `json:"cluster"`
	Listener json.RawMessage `json:"listener"`
	Routes   json.RawMessage `json:"route_config"`
	Endpoint json.RawMessage `json:"endpoint_config"`
}

// dumpedText is bytes that Envoy was sent; those of a private key are not in the dump.
type dumpedText struct {
	Bytes []byte `json:"inline_bytes"`
	Text  string `json:"inline_string"`
}

// mark returns what tells them from others, nil for nothing.
func (t *dumpedText) mark() *secret.Mark {
	if t == nil || len(t.Bytes) == 0 && t.Text == "" {
		return nil
	}
	m := secret.MarkOf(append(t.Bytes, t.Text...))
	return &m
}

// marked is a secret as discovery shows it.
type marked struct {
	Name        string       `json:"name"`
	Certificate *secret.Mark `json:"certificate,omitempty"`
	Roots       *secret.Mark `json:"roots,omitempty"`
}

// readEnvoy returns what an Envoy has, by type and name, and its node ID. What is used hides what warms under the same name, so a change that does not
// get through differs.
func readEnvoy(text []byte) (out map[string]map[string]*envoyResource, node string, err error) {
	var all dumped
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, "", fmt.Errorf("read Envoy's /config_dump: %w; is it the port of an agent for Envoy's admin?", err)
	}
	if len(all.Configs) == 0 {
		return nil, "", fmt.Errorf("read Envoy's /config_dump: it has no configuration; is it the port of an agent for Envoy's admin?")
	}
	out = map[string]map[string]*envoyResource{}
	add := func(kind string, text json.RawMessage, warms bool) {
		if len(text) == 0 || err != nil {
			return
		}
		value, wrong := normal(text)
		if wrong != nil {
			err = fmt.Errorf("read %s of Envoy's /config_dump: %w", kind, wrong)
			return
		}
		if out[kind] == nil {
			out[kind] = map[string]*envoyResource{}
		}
		if out[kind][nameOf(value)] == nil || !warms {
			out[kind][nameOf(value)] = &envoyResource{value, warms}
		}
	}
	for _, c := range all.Configs {
		node = cmp.Or(node, c.Bootstrap.Node.ID)
		for _, one := range c.Clusters {
			add("cds", one.Cluster, false)
		}
		for _, one := range c.Warming {
			add("cds", one.Cluster, true)
		}
		for _, l := range c.Listeners {
			if l.Active != nil {
				add("lds", l.Active.Listener, false)
			}
			if l.Warming != nil {
				add("lds", l.Warming.Listener, true)
			}
		}
		for _, one := range c.Routes {
			add("rds", one.Routes, false)
		}
		for _, one := range c.Endpoints {
			add("eds", one.Endpoint, false)
		}
		for i, one := range append(c.Secrets, c.WarmingSecrets...) {
			text, _ := json.Marshal(marked{one.Name, one.Secret.Certificate.Chain.mark(), one.Secret.Validation.Roots.mark()}) // it always encodes
			add("sds", text, i >= len(c.Secrets))
		}
	}
	return out, node, err
}

// healthy is the health of an endpoint of which none is sent.
const healthy = "HEALTHY"

// readHealth returns the health that endpoints were given by a control plane, by the name of their assignment and by address, of
// Envoy's /clusters?format=json.
func readHealth(text []byte) (map[string]map[string]string, error) {
	var all struct {
		Clusters []struct {
			Name    string `json:"name"`
			Service string `json:"eds_service_name"`
			Hosts   []struct {
				Address json.RawMessage `json:"address"`
				Health  struct {
					EDS string `json:"eds_health_status"`
				} `json:"health_status"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read Envoy's /clusters: %w; is it the port of an agent for Envoy's admin?", err)
	}
	out := map[string]map[string]string{}
	for _, c := range all.Clusters {
		of := map[string]string{}
		for _, h := range c.Hosts {
			address, err := normal(h.Address)
			if err != nil {
				return nil, fmt.Errorf("read an address of Envoy's /clusters: %w", err)
			}
			of[addressText(address)] = healthText(h.Health.EDS)
		}
		out[cmp.Or(c.Service, c.Name)] = of
	}
	return out, nil
}

// sentHealth returns the health of an endpoint that was sent.
func sentHealth(_ string, endpoint any) string {
	text, _ := field(endpoint, "healthstatus").(string)
	return healthText(text)
}

// healthText returns a health as it is compared: Envoy keeps whether the endpoint takes requests.
func healthText(text string) string {
	switch text {
	case "", "UNKNOWN":
		return healthy
	case "TIMEOUT":
		return "UNHEALTHY"
	}
	return text
}

// details returns what is compared of each endpoint of a ClusterLoadAssignment, by address. health says how one is.
func details(assignment any, health func(address string, endpoint any) string) map[string]any {
	out := map[string]any{}
	for _, group := range list(assignment, "endpoints") {
		where := field(group, "locality")
		var parts []string
		for _, name := range []string{"region", "zone", "subzone"} {
			text, _ := field(where, name).(string)
			parts = append(parts, text)
		}
		locality := strings.TrimRight(strings.Join(parts, "/"), "/")
		for _, e := range list(group, "lbendpoints") {
			address := addressText(field(field(e, "endpoint"), "address"))
			one := map[string]any{
				"weight": number(e, "loadbalancingweight", "1"), "locality": locality, "priority": number(group, "priority", "0"),
				"localityWeight": number(group, "loadbalancingweight", "0"), // Envoy shows 0 where none was sent
				"health":         cmp.Or(health(address, e), healthy),
			}
			for out[address] != nil {
				address += " again"
			}
			out[address] = one
		}
	}
	return out
}

// number returns a number as it is compared.
func number(of any, name, unset string) string {
	text, _ := field(of, name).(string)
	return cmp.Or(text, unset)
}

// addressText returns an address for people; a decoded one, as normal returns it.
func addressText(address any) string {
	socket, pipe := field(address, "socketaddress"), field(address, "pipe")
	host, _ := field(socket, "address").(string)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if host != "" {
		return host + ":" + number(socket, "portvalue", "0")
	}
	if path, _ := field(pipe, "path").(string); path != "" {
		return path
	}
	return shown(address)
}

// marks compares the certificates and roots of two secrets. A discovery of an older version does not tell them.
func marks(sent, has any) (out []string) {
	for _, part := range []string{"certificate", "roots"} {
		one, other := field(sent, part), field(has, part)
		if one == nil || number(one, "sha256", "") == number(other, "sha256", "") {
			continue
		}
		out = append(out, fmt.Sprintf("%s: sent %s, Envoy has %s", part, markText(one), markText(other)))
	}
	return out
}

func markText(mark any) string {
	sum := number(mark, "sha256", "")
	if sum == "" {
		return "nothing"
	}
	text := "sha256 " + sum[:min(len(sum), 16)]
	if serial := number(mark, "serial", ""); serial != "" {
		text = fmt.Sprintf("serial number %s until %s, %s", serial, number(mark, "until", "?"), text)
	}
	return text
}
