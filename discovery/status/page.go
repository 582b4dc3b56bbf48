package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// service is one host as registryz shows it.
type service struct {
	Host       string            `json:"host"`
	Namespace  string            `json:"namespace"`
	Resolution string            `json:"resolution"`
	Ports      map[string]uint32 `json:"ports"`
	Endpoints  int               `json:"endpoints"`
}

func registry(m *model.Mesh) []service {
	out := []service{}
	for _, s := range m.Services() {
		ports := map[string]uint32{}
		for _, p := range s.Ports {
			ports[p.Name] = p.Number
		}
		out = append(out, service{s.Host, s.Namespace, string(s.Resolution), ports, len(s.Endpoints)})
	}
	return out
}

// registered is one host with its endpoints.
type registered struct {
	Host      string     `json:"host"`
	Endpoints []endpoint `json:"endpoints"`
}

type endpoint struct {
	Address string            `json:"address"`
	Ports   map[string]uint32 `json:"ports"`
	Labels  map[string]string `json:"labels,omitempty"`
	Weight  uint32            `json:"weight,omitempty"`
	Cluster string            `json:"cluster,omitempty"`
	Health  string            `json:"health,omitempty"` // if the registry reports it
}

func registration(m *model.Mesh) []registered {
	out := []registered{}
	for _, s := range m.Services() {
		list := []endpoint{}
		for _, e := range s.Endpoints {
			ports := map[string]uint32{}
			for _, p := range s.Ports {
				if n := e.PortOn(p); n != 0 {
					ports[p.Name] = n
				}
			}
			health := ""
			if e.Health != model.HealthUnknown {
				health = e.Health.String()
			}
			list = append(list, endpoint{e.Address, ports, e.Labels, e.Weight, e.Cluster, health})
		}
		out = append(out, registered{s.Host, list})
	}
	return out
}

// object is one configuration object, with its spec as a user would write it.
type object struct {
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Origin    string          `json:"origin,omitempty"`
	Spec      json.RawMessage `json:"spec"`
}

func objects(m *model.Mesh) []object {
	out := []object{}
	for _, o := range m.Objects() {
		spec := json.RawMessage("null")
		if message, ok := o.Spec.(proto.Message); ok {
			text, err := protojson.Marshal(message)
			if err != nil {
				text, _ = json.Marshal(fmt.Sprint(err)) // text always encodes
			}
			spec = text
		}
		out = append(out, object{o.Kind, o.Namespace, o.Name, o.Origin.String(), spec})
	}
	return out
}

// note is a note about one object.
type note struct {
	Code    model.Code `json:"code"`
	Object  string     `json:"object"`
	File    string     `json:"file,omitempty"`
	Line    int        `json:"line,omitempty"`
	Record  string     `json:"record,omitempty"` // in a registry or an API server
	Path    string     `json:"path,omitempty"`
	Message string     `json:"message"`
	Winner  string     `json:"winner,omitempty"` // of a conflict: object and origin
}

func noted(notes []model.Note) []note {
	out := []note{}
	for _, n := range notes {
		shown := note{
			Code: n.Code, Object: named(n.Meta), File: n.Meta.Origin.File, Line: n.Line(), Path: n.Path, Message: n.Message,
		}
		if n.Meta.Origin.Record != nil {
			shown.Record = n.Meta.Origin.String()
		}
		if n.Code == model.Conflict {
			shown.Winner = strings.TrimSuffix(named(n.Other)+", "+n.Other.Origin.String(), ", ")
		}
		out = append(out, shown)
	}
	return out
}

func named(m model.Meta) string { return m.Kind + " " + m.Namespace + "/" + m.Name }

// syncState is a proxy as syncz shows it: the push that it has, and its state for each type.
type syncState struct {
	Proxy      string                    `json:"proxy"`
	Generation int64                     `json:"generation"`
	Since      time.Time                 `json:"since,omitzero"`
	Types      map[string]protocol.State `json:"types"` // by short name
}

func syncStates(clients []ads.Client) []syncState {
	out := []syncState{}
	for _, c := range clients {
		types := map[string]protocol.State{}
		for _, t := range c.Types {
			types[t.Name] = t.State
		}
		out = append(out, syncState{c.Node, c.Generation, c.Since, types})
	}
	return out
}
