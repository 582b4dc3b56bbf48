package envoy

import (
	"context"
	"encoding/json"
	"strings"
)

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
