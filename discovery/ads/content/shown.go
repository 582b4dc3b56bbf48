package content

import (
	"encoding/json"
	"fmt"
	"iter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Show returns a resource as protobuf's JSON, but of a secret its name and version only.
func (r *Resource) Show(k Kind) (json.RawMessage, error) {
	if !r.Exists() {
		return json.Marshal(map[string]any{"name": r.Name, "exists": false})
	}
	if k == SDS { // private keys are not shown here
		return json.Marshal(map[string]any{"name": r.Name, "version": r.Version})
	}
	packed := &anypb.Any{}
	if err := proto.Unmarshal(r.Whole(), packed); err != nil {
		return nil, fmt.Errorf("decode %s: %w", r.Name, err)
	}
	if k == NDS {
		return json.Marshal(shownTable{Type: packed.TypeUrl, Table: decodeNames(string(packed.Value))})
	}
	text, err := protojson.Marshal(packed)
	if err != nil {
		return nil, fmt.Errorf("encode %s as JSON: %w", r.Name, err)
	}
	return text, nil
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
