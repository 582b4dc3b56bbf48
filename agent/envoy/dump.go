package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// DynamicListeners counts the active listeners that discovery sent. No statistic does: it would include the bootstrap's
// listeners.
func (a *Admin) DynamicListeners(ctx context.Context) (active int64, err error) {
	body, err := a.get(ctx, "/config_dump?resource=dynamic_listeners&mask=name,active_state.version_info")
	if err != nil {
		return 0, err
	}
	configs, err := parseDump(body)
	for _, c := range configs {
		if c.Active != nil {
			active++
		}
	}
	return active, err
}

// intercepting are the listeners that receive redirected traffic, by Istio's names.
var intercepting = []string{"virtualOutbound", "virtualInbound"}

// missing returns the name of the first of them that is not active, empty for none. If all is set, a listener that
// discovery has not sent counts as missing too.
func (a *Admin) missing(ctx context.Context, all bool) (string, error) {
	query := url.Values{
		"resource": {"dynamic_listeners"}, "mask": {"name,active_state.version_info"},
		"name_regex": {"^(" + strings.Join(intercepting, "|") + ")$"},
	}
	body, err := a.get(ctx, "/config_dump?"+query.Encode())
	if err != nil {
		return "", err
	}
	configs, err := parseDump(body)
	if err != nil {
		return "", err
	}
	for _, name := range intercepting {
		sent, active := false, false
		for _, c := range configs {
			sent = sent || c.Name == name
			active = active || c.Name == name && c.Active != nil
		}
		if !active && (sent || all) {
			return name, nil
		}
	}
	return "", nil
}

// updated returns when Envoy last accepted a resource from discovery; zero if Envoy does not have the resource.
func (a *Admin) updated(ctx context.Context, typeURL, name string) (time.Time, error) {
	resource, field := "dynamic_active_clusters", "last_updated"
	if typeURL == listenerType {
		resource, field = "dynamic_listeners", "active_state.last_updated"
	}
	query := url.Values{"resource": {resource}, "mask": {field}, "name_regex": {"^" + regexp.QuoteMeta(name) + "$"}}
	body, err := a.get(ctx, "/config_dump?"+query.Encode())
	if err != nil {
		return time.Time{}, err
	}
	configs, err := parseDump(body)
	var last time.Time
	for _, c := range configs {
		if c.Active != nil {
			c = *c.Active
		}
		if c.Updated.After(last) {
			last = c.Updated
		}
	}
	return last, err
}

// unbound returns the addresses that Envoy could not bind since they were in use, if it has none of the inbound listeners that discovery sent.
func (a *Admin) unbound(ctx context.Context) (out []netip.AddrPort, err error) {
	body, err := a.get(ctx, "/config_dump?resource=dynamic_listeners&mask=name,active_state.listener,error_state")
	if err != nil {
		return nil, err
	}
	configs, err := parseDump(body)
	for _, c := range configs {
		if c.Active != nil && c.Active.Listener.Direction == inbound {
			return nil, err
		}
		if c.Failed == nil || c.Failed.Listener.Direction != inbound {
			continue
		}
		if named := inUse.FindStringSubmatch(c.Failed.Details); named != nil {
			if address, err := netip.ParseAddrPort(named[1]); err == nil { // not a pipe
				out = append(out, address)
			}
		}
	}
	return out, err
}

const inbound = "INBOUND"

// inUse matches what bindFailure returns.
var inUse = regexp.MustCompile(`cannot bind '([^']*)': Address already in use`)

// dumped holds the queried fields of one resource: of a cluster itself, or of a listener's active state.
type dumped struct {
	Name     string    `json:"name"`
	Updated  time.Time `json:"last_updated"`
	Active   *dumped   `json:"active_state"`
	Listener direction `json:"listener"`
	Failed   *struct {
		Details  string    `json:"details"`
		Listener direction `json:"failed_configuration"`
	} `json:"error_state"`
}

type direction struct {
	Direction string `json:"traffic_direction"`
}

func parseDump(body []byte) ([]dumped, error) {
	var dump struct {
		Configs []dumped `json:"configs"`
	}
	if err := json.Unmarshal(body, &dump); err != nil {
		return nil, fmt.Errorf("parse Envoy's configuration: %w", err)
	}
	return dump.Configs, nil
}
