package content

import (
	"encoding/json"
	"fmt"
	"iter"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Show returns a resource as protobuf's JSON, but of a secret its name, its version, and what tells its certificate or roots from others.
func (r *Resource) Show(k Kind) (json.RawMessage, error) {
	if !r.Exists() {
		return json.Marshal(map[string]any{"name": r.Name, "exists": false})
	}
	packed := &anypb.Any{}
	if err := proto.Unmarshal(r.Whole(), packed); err != nil {
		return nil, fmt.Errorf("decode %s: %w", r.Name, err)
	}
	if k == SDS { // private keys are not shown here
		return r.showSecret(packed)
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

// shownSecret has the mark of what a secret holds, nil where it holds none.
type shownSecret struct {
	Name        string       `json:"name"`
	Version     string       `json:"version"`
	Certificate *secret.Mark `json:"certificate,omitempty"`
	Roots       *secret.Mark `json:"roots,omitempty"`
}

func (r *Resource) showSecret(packed *anypb.Any) (json.RawMessage, error) {
	s := &tlsv3.Secret{}
	if err := packed.UnmarshalTo(s); err != nil {
		return nil, fmt.Errorf("decode %s: %w", r.Name, err)
	}
	out := shownSecret{Name: r.Name, Version: r.Version}
	if c := s.GetTlsCertificate().GetCertificateChain(); c != nil {
		m := secret.MarkOf(c.GetInlineBytes())
		out.Certificate = &m
	}
	if c := s.GetValidationContext().GetTrustedCa(); c != nil {
		m := secret.MarkOf(c.GetInlineBytes())
		out.Roots = &m
	}
	return json.Marshal(out)
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
