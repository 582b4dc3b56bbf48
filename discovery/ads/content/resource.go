package content

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Resource is one resource, encoded once and shared by every response that holds it.
type Resource struct {
	Name    string
	Version string // of the content, "" where there is none
	Content []byte // an encoded Any, or its beginning; nil for a name that does not exist, or whose content is not known
	tail    *tail  // of a large route configuration, nil for others
	hash    digest
	unknown bool // a client has it with a content that is not known here
}

type digest [sha256.Size]byte

// absent returns a resource that states that a name does not exist.
func absent(name string) *Resource { return &Resource{Name: name} }

// Exists reports whether the resource has a content that is known.
func (r *Resource) Exists() bool { return r.Content != nil }

// size returns the length of the encoded Any in bytes.
func (r *Resource) size() int {
	if r.tail == nil {
		return len(r.Content)
	}
	return len(r.Content) + r.tail.size
}

// pieces returns the bytes of the encoded Any that follow content.
func (r *Resource) pieces() [][]byte {
	if r.tail == nil {
		return nil
	}
	return r.tail.pieces
}

// Whole returns the encoded Any in one piece: a copy if it lies in several.
func (r *Resource) Whole() []byte {
	if len(r.pieces()) == 0 {
		return r.Content
	}
	return slices.Concat(slices.Insert(slices.Clone(r.pieces()), 0, r.Content)...)
}

// Same reports whether two resources are known to have the same content, or both to not exist.
func Same(a, b *Resource) bool {
	return a == b || !a.unknown && !b.unknown && a.hash == b.hash
}

func byName(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) }

// tail is the virtual hosts of such a route configuration, encoded as its fields.
type tail struct {
	hosts  []*routev3.VirtualHost
	bytes  [][]byte // of each
	pieces [][]byte // of all that do not follow the resource's content in memory; neighbours in memory are one piece
	size   int      // of all pieces
}

// Show returns a resource as protobuf's JSON, but of a secret its name, its version, and what tells its certificate or
// roots from others.
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
