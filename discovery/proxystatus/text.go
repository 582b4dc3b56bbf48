package proxystatus

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// kinds are the types in the order of a table.
var kinds = [...]string{"cds", "eds", "lds", "rds"}

// Text is a table of the proxies at a time, then a line for each trouble of each.
func Text(all []Proxy, now time.Time) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROXY\tROLE\tIDENTITY\tVERSION\tSTATE\tCDS\tEDS\tLDS\tRDS\tNOTES\tCONNECTED")
	for _, p := range all {
		state := string(p.State)
		if n := len(p.Refused); n > 0 {
			state += fmt.Sprintf(", %d refused", n)
		}
		row := []string{p.Title(), dash(p.Role), cmp.Or(p.Identity, "none"), dash(p.Version), state}
		for _, k := range kinds {
			row = append(row, dash(string(p.Types[k])))
		}
		row = append(row, strconv.Itoa(len(p.Notes)), now.Sub(p.Connected).Round(time.Second).String())
		for i := range row {
			row[i] = model.OneLine(row[i])
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
	for _, p := range all {
		b.WriteString(p.troubles())
	}
	return b.String()
}

// troubles has a line for each thing that is wrong with a proxy.
func (p Proxy) troubles() string {
	var b strings.Builder
	for _, text := range p.Troubles() {
		b.WriteString(model.OneLine(p.Title()+": "+text) + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}

// Troubles says each thing that is wrong with the proxy.
func (p Proxy) Troubles() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, r := range p.Refused {
		add("refuses %s at %s: %s", strings.TrimSpace(strings.ToUpper(r.Type)+" "+r.Part), r.Time.Format(time.RFC3339), strings.TrimSpace(r.Text))
	}
	if w := p.Waits; w.Waits() {
		until := "until a source is whole that it may have been of"
		if !w.Until.IsZero() {
			until = "until " + w.Until.Format(time.RFC3339)
		}
		add("keeps what it has since %s, %s: it would lose %d of its %d clusters", w.Since.Format(time.RFC3339), until, w.Lost.Lost, w.Lost.Had)
	}
	for _, n := range p.Notes {
		add("%s: %s", strings.TrimSpace(string(n.Code)+" "+n.Object), n.Message)
	}
	return out
}

// Title is how people name the proxy: NAMESPACE/NAME once it has said so.
func (p Proxy) Title() string {
	if p.Name == "" {
		return cmp.Or(p.Node, "not named yet, at "+p.Peer)
	}
	return p.Namespace + "/" + p.Name
}

func dash(text string) string { return cmp.Or(text, "-") }

// Resources are what a proxy was sent, by the short name of the type, as /debug/config_dump has it.
type Resources map[string][]json.RawMessage

// types are the short names of types by those that a user gives.
var types = map[string]string{"clusters": "cds", "endpoints": "eds", "listeners": "lds", "routes": "rds", "secrets": "sds"}

// Types returns the names of types that CheckType knows.
func Types() []string { return slices.Sorted(maps.Keys(types)) }

// ReadResources reads the JSON of a proxy's resources, and keeps those of one type, "" for all. names has a line for each.
func ReadResources(text []byte, only string) (r Resources, names string, err error) {
	if err = json.Unmarshal(text, &r); err == nil && len(r) == 0 { // a type of which nothing was sent has an empty list
		err = errors.New("it has no types")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read /debug/config_dump: %w; is it a discovery of this version?", err)
	}
	if only != "" {
		r = Resources{types[only]: r[types[only]]}
	}
	names, err = r.names()
	return r, names, err
}

// names has a line with type and name of each resource.
func (r Resources) names() (string, error) {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		for _, text := range r[kind] {
			var named struct {
				Name    string `json:"name"`
				Cluster string `json:"clusterName"` // of endpoints
			}
			if err := json.Unmarshal(text, &named); err != nil {
				return "", fmt.Errorf("read a resource of %s: %w", kind, err)
			}
			b.WriteString(kind + " " + model.OneLine(cmp.Or(named.Name, named.Cluster)) + "\n")
		}
	}
	return b.String(), nil
}

// CheckType returns an error for a type that there is not; "" is all of them.
func CheckType(named string) error {
	if _, known := types[named]; known || named == "" {
		return nil
	}
	return fmt.Errorf("type %q, want one of %s", named, strings.Join(Types(), ", "))
}
