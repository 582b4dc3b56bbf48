package proxystatus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Difference is a resource that discovery has sent, and that an Envoy has otherwise.
type Difference struct {
	Type  string   `json:"type"` // by its short name; "node" if the Envoy is one of another proxy
	Name  string   `json:"name"`
	Sent  bool     `json:"sent"`
	Has   bool     `json:"has"`
	Warms bool     `json:"warms,omitempty"` // Envoy has it, and does not use it yet
	Parts []string `json:"parts,omitempty"` // the first fields that differ, with both values
}

// Differences are those of one proxy.
type Differences []Difference

// maxParts is how many fields of a resource are named that differ.
const maxParts = 5

// Diff compares what the proxy of a node was sent, as /debug/config_dump has it, with what its Envoy has, as Envoy's own /config_dump?include_eds has
// it, and clusters its /clusters?format=json: the dump has the present health of an endpoint, not the one that was sent. only is the type to
// compare, "" for all. NotCompared says what is left out. Of endpoints and secrets only those that were sent count: Envoy also lists endpoints
// that are part of a cluster, and has secrets from its agent.
func Diff(proxy string, sent, envoy, clusters []byte, only string) (Differences, error) {
	r, _, err := ReadResources(sent, only)
	if err != nil {
		return nil, err
	}
	has, id, err := readEnvoy(envoy)
	if err != nil {
		return nil, err
	}
	ill, err := readHealth(clusters)
	if err != nil {
		return nil, err
	}
	out := Differences{}
	if !isOf(proxy, id) { // its replicas are sent the same
		out = append(out, Difference{Type: "node", Name: proxy, Sent: true, Has: true, Parts: []string{fmt.Sprintf("the Envoy behind that agent is %q", id)}})
	}
	for _, kind := range slices.Sorted(maps.Values(types)) {
		if only != "" && types[only] != kind {
			continue
		}
		mine := map[string]any{}
		for _, text := range r[kind] {
			value, err := normal(text)
			if err != nil {
				return nil, fmt.Errorf("read a resource of %s: %w", kind, err)
			}
			mine[nameOf(value)] = value
		}
		names := slices.Collect(maps.Keys(mine))
		for name := range has[kind] {
			if _, known := mine[name]; !known && kind != "sds" && kind != "eds" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if d, differs := compare(kind, name, mine[name], has[kind][name], ill[name]); differs {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// isOf reports whether a name that discovery takes for a proxy, its ID, the name in it, or NAMESPACE/NAME, is one of a node ID.
func isOf(proxy, id string) bool {
	parts := strings.Split(id, "~")
	if len(parts) != 4 || proxy == id {
		return proxy == id
	}
	namespace, name, both := strings.Cut(proxy, "/")
	return proxy == parts[2] || both && (parts[2] == name || parts[2] == name+"."+namespace)
}

// envoyResource is a resource that Envoy has.
type envoyResource struct {
	value any
	warms bool
}

func compare(kind, name string, sent any, has *envoyResource, ill map[string]string) (d Difference, differs bool) {
	d = Difference{Type: kind, Name: name, Sent: sent != nil, Has: has != nil}
	if !d.Sent || !d.Has {
		return d, true
	}
	d.Warms = has.warms
	switch kind {
	case "sds":
		d.Parts = marks(sent, has.value)
	case "eds":
		if d.Parts = parts(nil, "endpoints", addresses(sent), addresses(has.value)); len(d.Parts) == 0 {
			d.Parts = parts(nil, "", details(sent, sentHealth), details(has.value, func(address string, _ any) string { return ill[address] }))
		}
	default:
		d.Parts = parts(nil, "", sent, has.value)
	}
	return d, d.Warms || len(d.Parts) > 0
}

// parts adds the fields in which two values differ.
func parts(out []string, path string, a, b any) []string {
	if len(out) >= maxParts {
		return out
	}
	switch x := a.(type) {
	case map[string]any:
		if y, same := b.(map[string]any); same {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				out = parts(out, strings.TrimPrefix(path+"."+key, "."), x[key], y[key])
			}
			return out
		}
	case []any:
		if y, same := b.([]any); same && len(x) == len(y) {
			for i := range x {
				out = parts(out, fmt.Sprintf("%s[%d]", path, i), x[i], y[i])
			}
			return out
		}
	}
	if one, other := shown(a), shown(b); one != other {
		out = append(out, fmt.Sprintf("%s: sent %s, Envoy has %s", path, brief(one), brief(other)))
	}
	return out
}

func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}

func brief(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// addresses returns the sorted addresses of a ClusterLoadAssignment.
func addresses(assignment any) []any {
	var out []string
	for _, group := range list(assignment, "endpoints") {
		for _, e := range list(group, "lbendpoints") {
			out = append(out, shown(field(field(e, "endpoint"), "address")))
		}
	}
	slices.Sort(out)
	all := make([]any, len(out))
	for i, text := range out {
		all[i] = text
	}
	return all
}

func field(value any, name string) any {
	object, _ := value.(map[string]any)
	return object[name]
}

func list(value any, name string) []any {
	all, _ := field(value, name).([]any)
	return all
}

func nameOf(value any) string {
	name, _ := field(value, "name").(string)
	of, _ := field(value, "clustername").(string) // of endpoints
	return cmp.Or(name, of)
}

// normal decodes protobuf's JSON. A key has neither case nor underscores, for Envoy writes a field's name in protobuf and discovery the one in
// JSON; a number is a text, as one of 64 bits is where its type is known.
func normal(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return folded(value), nil
}

func folded(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, of := range v {
			out[strings.ToLower(strings.ReplaceAll(key, "_", ""))] = folded(of)
		}
		return out
	case []any:
		for i := range v {
			v[i] = folded(v[i])
		}
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return value
}

// NotCompared says what may differ though no difference is found.
const NotCompared = "not compared: private keys, metadata and names of endpoints, tables of DNS names, certificates of an older discovery, and what Envoy has from its agent"

// Err returns an error if there is a difference.
func (all Differences) Err() error {
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%d resources differ", len(all))
}

// Text has a line for each difference.
func (all Differences) Text() string {
	var b strings.Builder
	for _, d := range all {
		text := "differs: " + strings.Join(d.Parts, "; ")
		switch {
		case !d.Has:
			text = "was sent, and Envoy does not have it"
		case !d.Sent:
			text = "Envoy has it, and it was not sent"
		case d.Warms:
			text = "Envoy has it, and does not use it yet: what it needs is missing"
		}
		b.WriteString(model.OneLine(d.Type+" "+d.Name+" "+text) + "\n")
	}
	if len(all) == 0 {
		b.WriteString("Envoy has what discovery has sent\n")
	}
	b.WriteString(NotCompared + "\n")
	return b.String()
}
