package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

const (
	metaPrefix = "ISTIO_META_"     // ISTIO_META_X=v: X is the string v
	jsonPrefix = "ISTIO_METAJSON_" // ISTIO_METAJSON_X={…}: an object, merged
)

// describe reads what the proxy tells about itself from the environment. Labels and annotations are objects under
// their own key; any other ISTIO_METAJSON_ object is merged into the metadata itself, as pilot-agent does.
func describe(id node.ID, env environment, addresses []netip.Addr) (node.Metadata, error) {
	raw := map[string]any{}
	if namespace := env["POD_NAMESPACE"]; namespace != "" {
		raw["NAMESPACE"] = namespace
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if key, ok := strings.CutPrefix(name, metaPrefix); ok && key != "" {
			raw[key] = env[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		key, ok := strings.CutPrefix(name, jsonPrefix)
		if !ok || key == "" {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(env[name]), &object); err != nil {
			return node.Metadata{}, fmt.Errorf("environment %s: want a JSON object, such as {\"app\":\"reviews\"}: %w", name, err)
		}
		if key == "LABELS" || key == "ANNOTATIONS" {
			object = map[string]any{key: object}
		}
		maps.Copy(raw, object)
	}
	metadata, err := node.ParseMetadata(raw)
	if err != nil {
		return node.Metadata{}, fmt.Errorf("environment %s*: %w", metaPrefix, err)
	}
	metadata.Namespace = cmp.Or(metadata.Namespace, "default")
	metadata.InstanceIPs = instanceIPs(id.IP, addresses)
	return metadata, nil
}

// instanceIPs are the proxy's own address and every other of the host.
func instanceIPs(own string, addresses []netip.Addr) []string {
	out := []string{own}
	for _, a := range addresses {
		if s := a.String(); s != own {
			out = append(out, s)
		}
	}
	return out
}
