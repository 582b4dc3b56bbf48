package proxystatus

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Proxy is one stream of a connected proxy.
type Proxy struct {
	Node      string `json:"node"` // its ID; "" until its first request
	Role      string `json:"role"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Identity  string `json:"identity,omitempty"` // that its certificate proves; "" without one
	// CertificateFrom and CertificateUntil are the life of that certificate.
	CertificateFrom  time.Time `json:"certificate_from,omitzero"`
	CertificateUntil time.Time `json:"certificate_until,omitzero"`

	Version   string    `json:"version,omitempty"` // "envoy 1.40.0"
	Agent     string    `json:"agent,omitempty"`   // version of its agent, "v0.2.0"; "" if it does not say
	Peer      string    `json:"peer"`
	Variant   string    `json:"variant"`
	Connected time.Time `json:"connected"`

	State   protocol.State            `json:"state"` // the worst of Types
	Types   map[string]protocol.State `json:"types"` // by short name
	Refused []Refused                 `json:"refused,omitempty"`
	Waits   protocol.Wait             `json:"waits,omitzero"` // why it keeps what it has
	Notes   []Note                    `json:"notes,omitempty"`
}

// Refused is a response, or a part of one, that the proxy refuses.
type Refused struct {
	Type string    `json:"type"`
	Part string    `json:"part,omitempty"` // the resource, and its virtual host; "" for a whole response
	Text string    `json:"text"`           // the proxy's words
	Time time.Time `json:"time"`
}

// Note is a note about the proxy, or about an object that concerns it.
type Note struct {
	Code    model.Code `json:"code"`
	Object  string     `json:"object,omitempty"` // "KIND NAMESPACE/NAME" with its origin; "" for the proxy itself
	Message string     `json:"message"`
}

// Of returns the proxies, the worst first: those that refuse something, those with notes, those that are behind; equal ones by
// node, and in the order of clients.
func Of(clients []ads.Client, notes []model.Note) []Proxy {
	about := map[string][]Note{} // by NAMESPACE/NAME
	for _, n := range notes {
		if n.Meta.Kind == "Proxy" {
			key := n.Meta.Namespace + "/" + n.Meta.Name
			message := n.Message
			if n.Path != "" {
				message = n.Path + " " + message
			}
			about[key] = append(about[key], Note{Code: n.Code, Message: message})
			continue
		}
		object := n.Meta.Kind + " " + n.Meta.Namespace + "/" + n.Meta.Name
		if origin := n.Meta.Origin.String(); origin != "" {
			object += ", " + origin
		}
		for _, key := range n.Proxies {
			about[key] = append(about[key], Note{Code: n.Code, Object: object, Message: n.Message})
		}
	}
	out := make([]Proxy, 0, len(clients))
	for _, c := range clients {
		out = append(out, proxyOf(c, about))
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Node, b.Node)) < 0
	})
	return out
}

func proxyOf(c ads.Client, about map[string][]Note) Proxy {
	role, _, _ := strings.Cut(c.Node, "~")
	p := Proxy{
		Node: c.Node, Role: role, Namespace: c.Namespace, Name: c.Name, Identity: c.Identity, CertificateFrom: c.CertificateFrom, CertificateUntil: c.CertificateUntil, Version: c.Version, Agent: c.Agent, Peer: c.Peer, Variant: c.Variant,
		Connected: c.Connected, State: protocol.StateNotSent, Types: map[string]protocol.State{}, Waits: c.Waits,
	}
	if c.Name != "" {
		p.Notes = about[c.Namespace+"/"+c.Name]
	}
	for _, t := range c.Types {
		p.Types[t.Name] = t.State
		if badness(t.State) > badness(p.State) {
			p.State = t.State
		}
		if t.State == protocol.StateNacked && t.Nack != nil && len(t.Refused) == 0 { // else the parts say more
			p.Refused = append(p.Refused, Refused{Type: t.Name, Text: t.Nack.Text, Time: t.Nack.Time})
		}
		for _, r := range t.Refused {
			part := r.Resource
			if r.Host != "" {
				part += " " + r.Host
			}
			p.Refused = append(p.Refused, Refused{Type: t.Name, Part: part, Text: r.Text, Time: r.Since})
		}
	}
	return p
}

// badness orders states: a type that was never requested says nothing about a proxy.
func badness(s protocol.State) int {
	return slices.Index([]protocol.State{protocol.StateNotSent, protocol.StateSynced, protocol.StateStale, protocol.StateNacked}, s)
}

// rank is less for a proxy that is worse.
func (p Proxy) rank() int {
	switch {
	case len(p.Refused) > 0 || p.State == protocol.StateNacked:
		return 0
	case len(p.Notes) > 0 || p.Waits.Waits():
		return 1
	case p.State == protocol.StateStale:
		return 2
	}
	return 3
}

// Read reads the JSON of proxies, as /debug/proxies has it. named keeps the streams of those with a node ID, a name, or
// NAMESPACE/NAME; "" keeps all.
func Read(text []byte, named string) (out []Proxy, err error) {
	var all []Proxy
	if err = json.Unmarshal(text, &all); err == nil && all == nil {
		err = errors.New("it has no list")
	}
	if err != nil {
		return nil, fmt.Errorf("read /debug/proxies: %w; is it a discovery of this version?", err)
	}
	if named == "" {
		return all, nil
	}
	for _, p := range all {
		if p.Node == named || p.Name == named || p.Namespace+"/"+p.Name == named {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no proxy %q is connected to this discovery; discovery status lists those that are", named)
	}
	return out, nil
}

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
