package content

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// TableName is the name of the only resource of its kind. Clients subscribe to the wildcard.
const TableName = "names"

// Fields of istio.networking.nds.v1: of NameTable, of an entry of its map, and of NameInfo. The messages are encoded by
// hand, since the package that has them imports the whole of Istio.
const (
	fieldTable         = 1
	fieldEntryKey      = 1
	fieldEntryValue    = 2
	fieldInfoIPs       = 1
	fieldInfoRegistry  = 2
	fieldInfoShortname = 3
	fieldInfoNamespace = 4
)

// The registries that clients distinguish: for a name of Kubernetes they add the shorter forms themselves.
const (
	registryKubernetes = "Kubernetes"
	registryExternal   = "External"
)

// table is the names that a reader's own DNS answers: one resource, even if it is empty, since a client without a table
// answers no query. A stream that does not request names has none.
func (vs *Views) table(r Reader, out *xds.Resources) *Set {
	if !r.Names {
		return noNames
	}
	v := r.Outbound.In(vs.Mesh)
	return vs.built.tables.Get(v, func() *Set {
		made := NewSet(NDS, []*Resource{newResource(TableName, NamesType, encodeNames(out.Names(v)))})
		if last := vs.last.Load(); last != nil {
			if old := last.tables.peek(v); old != nil && old.Version == made.Version {
				return old
			}
		}
		return made
	})
}

var noNames = NewSet(NDS, nil)

// encodeNames returns a NameTable, with the same bytes for the same names.
func encodeNames(names []xds.Name) (out []byte) {
	text := func(to []byte, field protowire.Number, s string) []byte {
		if s == "" {
			return to
		}
		return protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), s)
	}
	var info, entry []byte
	for _, n := range names {
		info = info[:0]
		for _, ip := range n.Addresses {
			info = text(info, fieldInfoIPs, ip)
		}
		registry := registryExternal
		if n.Service != "" {
			registry = registryKubernetes
		}
		info = text(info, fieldInfoRegistry, registry)
		info = text(info, fieldInfoShortname, n.Service)
		info = text(info, fieldInfoNamespace, n.Namespace)
		entry = text(entry[:0], fieldEntryKey, n.Host)
		entry = protowire.AppendBytes(protowire.AppendTag(entry, fieldEntryValue, protowire.BytesType), info)
		out = protowire.AppendBytes(protowire.AppendTag(out, fieldTable, protowire.BytesType), entry)
	}
	return out
}

// shownTable is a NameTable as protobuf's JSON has it.
type shownTable struct {
	Type  string               `json:"@type"`
	Table map[string]shownName `json:"table"`
}

type shownName struct {
	IPs       []string `json:"ips"`
	Registry  string   `json:"registry"`
	Shortname string   `json:"shortname,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
}

// decodeNames is the reverse of encodeNames.
func decodeNames(message string) map[string]shownName {
	table := map[string]shownName{}
	for _, entry := range fieldsIn(message) {
		var host string
		var info shownName
		for number, value := range fieldsIn(entry) {
			if number == fieldEntryKey {
				host = value
				continue
			}
			for number, text := range fieldsIn(value) {
				switch number {
				case fieldInfoIPs:
					info.IPs = append(info.IPs, text)
				case fieldInfoRegistry:
					info.Registry = text
				case fieldInfoShortname:
					info.Shortname = text
				case fieldInfoNamespace:
					info.Namespace = text
				}
			}
		}
		table[host] = info
	}
	return table
}

// fieldsIn yields the fields of a message that has only texts and messages.
func fieldsIn(message string) iter.Seq2[protowire.Number, string] {
	return func(yield func(protowire.Number, string) bool) {
		for message != "" {
			number, value, rest, ok := cutField(message)
			if !ok || !yield(number, value) {
				return
			}
			message = rest
		}
	}
}
