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

// waits returns what an initializing Envoy waits for: "virtualInbound waits for SDS default". It is empty if that is
// not known.
func (a *Admin) waits(ctx context.Context) string {
	body, err := a.get(ctx, "/init_dump")
	if err != nil {
		return ""
	}
	return waitsOf(body)
}

// waitsOf names at most three of them, and the number of the others.
func waitsOf(body []byte) string {
	var dump struct {
		Managers []struct {
			Name    string   `json:"name"`
			Targets []string `json:"target_names"`
		} `json:"unready_targets_dumps"`
	}
	if json.Unmarshal(body, &dump) != nil {
		return ""
	}
	var out []string
	for _, m := range dump.Managers {
		if len(m.Targets) == 0 {
			continue
		}
		out = append(out, manager(m.Name)+" waits for "+strings.Join(targets(m.Targets), ", "))
	}
	const told = 3
	if len(out) > told {
		out = append(out[:told], "and more")
	}
	return strings.Join(out, "; ")
}

// manager shortens "init manager Listener-local-init-manager virtualInbound 2010268625740115789" to "virtualInbound".
func manager(name string) string {
	name = strings.TrimPrefix(name, "init manager ")
	if _, listener, found := strings.Cut(name, "Listener-local-init-manager "); found {
		name, _, _ = strings.Cut(listener, " ")
	}
	return name
}

// targets shortens "shared target SdsApi default" to "SDS default", and "target RdsRouteConfigSubscription RDS init 80"
// to "RDS 80".
func targets(names []string) []string {
	words := strings.NewReplacer(
		"shared target ", "", "target ", "", "SdsApi ", "SDS ", "RdsRouteConfigSubscription RDS init ", "RDS ",
	)
	var out []string
	for _, name := range names {
		out = append(out, words.Replace(name))
	}
	return out
}

// Certificate is a certificate that Envoy presents.
type Certificate struct {
	Path     string // "<inline>" when it came by SDS, also from a file
	Serial   string // lower-case hex of whole bytes: "03e9"
	NotAfter time.Time
}

// Certificates lists the certificates that Envoy would present now. It is the only proof of a rotation:
// sds.*.update_success rises and sds.*.version stays whether Envoy has accepted the new certificate or not.
func (a *Admin) Certificates(ctx context.Context) ([]Certificate, error) {
	body, err := a.get(ctx, "/certs")
	if err != nil {
		return nil, err
	}
	return parseCertificates(body)
}

func parseCertificates(body []byte) ([]Certificate, error) {
	var answer struct {
		Certificates []struct {
			Chain []struct {
				Path     string    `json:"path"`
				Serial   string    `json:"serial_number"`
				NotAfter time.Time `json:"expiration_time"`
			} `json:"cert_chain"`
		} `json:"certificates"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("parse Envoy's /certs: %w", err)
	}
	var out []Certificate
	for _, c := range answer.Certificates {
		for _, link := range c.Chain {
			out = append(out, Certificate(link))
		}
	}
	return out, nil
}
