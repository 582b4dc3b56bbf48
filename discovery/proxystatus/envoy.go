package proxystatus

import (
	"cmp"
	"encoding/json"
	"fmt"

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
func readEnvoy(text []byte) (out map[string]map[string]*held, node string, err error) {
	var all dumped
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, "", fmt.Errorf("read Envoy's /config_dump: %w; is it the port of an agent for Envoy's admin?", err)
	}
	if len(all.Configs) == 0 {
		return nil, "", fmt.Errorf("read Envoy's /config_dump: it has no configuration; is it the port of an agent for Envoy's admin?")
	}
	out = map[string]map[string]*held{}
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
			out[kind] = map[string]*held{}
		}
		if out[kind][nameOf(value)] == nil || !warms {
			out[kind][nameOf(value)] = &held{value, warms}
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
