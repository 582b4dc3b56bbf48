package proxystatus

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
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
