package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Request is a request of either variant. Reading it does not allocate a string for each of its thousand names.
type Request struct {
	Variant content.Variant
	Intern  *content.Interner
	Likely  *content.Names // the names of the stream's last request, which every ACK repeats: compared, not parsed
	asked   asked          // the types of the stream's requests so far

	Size        int    // of the message, in bytes
	Fault       error  // why the other fields are not valid
	Node        []byte // encoded; it is certain only in a stream's first request
	TypeURL     string
	Nonce       string
	Refusal     string           // why the response was refused; never "" for a refused response
	version     string           // state of the world
	Names       *content.Names   // all, in the state of the world; in a delta those to subscribe
	unsubscribe *content.Names   // delta
	initial     content.Versions // delta; none unless it is the stream's first request for the type
}

type requestField int

const (
	skip requestField = iota
	fieldOfVersion
	fieldOfNode
	fieldOfNames
	fieldOfUnsubscribe
	fieldOfInitial
	fieldOfTypeURL
	fieldOfNonce
	fieldOfError
)

func fieldOf(v content.Variant, n protowire.Number) requestField {
	fields := [...]requestField{
		1: fieldOfVersion, 2: fieldOfNode, 3: fieldOfNames, 4: fieldOfTypeURL, 5: fieldOfNonce, 6: fieldOfError,
	}
	if v == content.Delta {
		fields = [...]requestField{1: fieldOfNode, 2: fieldOfTypeURL, 3: fieldOfNames, 4: fieldOfUnsubscribe, 5: fieldOfInitial, 6: fieldOfNonce}
		if n == 7 {
			return fieldOfError
		}
	}
	if int(n) >= len(fields) {
		return skip
	}
	return fields[n]
}

// runs are repeated fields: for each field number all its bytes, without a copy if they are adjacent in the message.
type runs [fieldOfError + 1]struct {
	bytes []byte
	own   bool // a copy, since other fields are between them
}

func (r *runs) add(f requestField, field []byte) {
	run := &r[f]
	n := len(run.bytes)
	switch {
	case n == 0:
		run.bytes = field
	case run.own:
		run.bytes = append(run.bytes, field...)
	case cap(run.bytes) > n && &run.bytes[:n+1][n] == &field[0]:
		run.bytes = run.bytes[:n+len(field)]
	default:
		run.bytes, run.own = append(run.bytes[:n:n], field...), true
	}
}

// scan scans a message. It keeps nothing of data.
func (r *Request) scan(data []byte) error {
	*r = Request{Variant: r.Variant, Intern: r.Intern, Likely: r.Likely, asked: r.asked, Size: len(data)}
	var repeated runs
	for len(data) > 0 {
		if run, ok := r.repeats(data); ok {
			r.Names, data = r.Likely, data[run:]
			continue
		}
		number, wireType, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, wireType, data[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		field := data[:tag+size]
		if f := fieldOf(r.Variant, number); f != skip {
			if wireType != protowire.BytesType {
				return errors.New("a field of the request has the wrong type")
			}
			value, _ := protowire.ConsumeBytes(field[tag:])
			if err := r.decodeField(f, value); err != nil {
				return err
			}
			if f == fieldOfNames || f == fieldOfUnsubscribe || f == fieldOfInitial {
				repeated.add(f, field)
			}
		}
		data = data[tag+size:]
	}
	return r.takeRuns(&repeated)
}

// repeats reports whether data begins with exactly the names of the last request, and their length in bytes.
func (r *Request) repeats(data []byte) (int, bool) {
	if r.Likely == nil || r.Names != nil {
		return 0, false
	}
	return r.Likely.Begin(data)
}

func (r *Request) decodeField(f requestField, value []byte) error {
	switch f {
	case fieldOfNode:
		if len(value) > maxNode {
			return fmt.Errorf("node has %d bytes, at most %d are allowed", len(value), maxNode)
		}
		r.Node = append([]byte(nil), value...)
	case fieldOfVersion:
		r.version = string(value[:min(len(value), maxToken)])
	case fieldOfNonce:
		r.Nonce = string(value[:min(len(value), maxToken)])
	case fieldOfTypeURL:
		r.TypeURL = internType(value)
	case fieldOfError:
		var detail statuspb.Status
		if err := proto.Unmarshal(value, &detail); err != nil {
			return err
		}
		r.Refusal = cmp.Or(Clip(detail.Message), "refused without a reason")
	}
	return nil
}

func (r *Request) takeRuns(repeated *runs) (err error) {
	if run := repeated[fieldOfNames].bytes; len(run) > 0 {
		if r.Names != nil { // they are not adjacent
			run = append(r.Names.Fields(), run...)
		}
		if r.Names, err = r.Intern.OfWire(run); err != nil {
			return err
		}
	}
	if initial := repeated[fieldOfInitial].bytes; !r.asked.first(r.TypeURL) {
		err = content.CheckEntries(initial)
	} else {
		r.initial, err = r.Intern.OfVersions(initial)
	}
	if err != nil {
		return err
	}
	r.unsubscribe, err = r.Intern.OfWire(repeated[fieldOfUnsubscribe].bytes)
	return err
}

// maxNode is how many bytes a node may have: Kubernetes allows the annotations of a Pod, which Istio's agent puts into
// it, as many.
const maxNode = 256 << 10

// maxToken is how many bytes are kept of a version or a nonce. This server's have fewer: the beginning of a longer one
// equals none of them.
const maxToken = 128

// maxText is how many bytes of a client's error text are kept.
const maxText = 4 << 10

// Clip returns the beginning of a text of a client, which may be long.
func Clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

func internType(value []byte) string {
	for k := range content.Kinds {
		if string(value) == k.TypeURL() {
			return k.TypeURL()
		}
	}
	return Clip(string(value))
}

// ParseNode decodes the node that the request holds.
func (r *Request) ParseNode() (*corev3.Node, error) {
	n := &corev3.Node{}
	if err := proto.Unmarshal(r.Node, n); err != nil {
		return nil, err
	}
	return n, nil
}

// Done drops the large values of a request that was answered. The request itself lasts until the next one comes.
func (r *Request) Done() { r.Node, r.initial = nil, content.Versions{} }

// asked marks the types that a stream has requested, and at last the request without a type, which the services of one
// kind allow. The resources that a client reports count in its first request for a type; elsewhere they are only
// checked, so that they cost no memory.
type asked [content.Kinds + 1]bool

// first reports whether a request is the first for a type that may be served, and marks it.
func (a *asked) first(typeURL string) bool {
	k, served := content.KindOf(typeURL)
	switch {
	case typeURL == "":
		k = content.Kinds
	case !served:
		return false
	}
	before := a[k]
	a[k] = true
	return !before
}

// Read records a read error in the request, for the stream to report: gRPC would report it as an internal error
// of the server.
func (r *Request) Read(data []byte) {
	if err := r.scan(data); err != nil {
		r.Fault = fmt.Errorf("read discovery request: %w", err)
	}
}

// Response is one response to send on a stream.
type Response struct {
	Variant content.Variant
	Kind    content.Kind
	Nonce   string
	Version string
	Update  *content.Update
}

// Fields of DiscoveryResponse and DeltaDiscoveryResponse that are of one response only. They have one number in both.
const (
	fieldVersion = 1
	fieldTypeURL = 4
	fieldNonce   = 5
)

// Tail returns the fields that a response does not share.
func (r *Response) Tail() []byte {
	b := make([]byte, 0, len(r.Version)+len(r.Kind.TypeURL())+len(r.Nonce)+8)
	for _, field := range []struct {
		number protowire.Number
		value  string
	}{{fieldVersion, r.Version}, {fieldTypeURL, r.Kind.TypeURL()}, {fieldNonce, r.Nonce}} {
		b = protowire.AppendString(protowire.AppendTag(b, field.number, protowire.BytesType), field.value)
	}
	return b
}

// Size returns the number of bytes of its resources.
func (r *Response) Size() (n int) {
	for _, p := range r.Update.Lists {
		_, size := p.Pieces(r.Variant)
		n += size
	}
	return n
}
