package ads

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// request is a request of either variant. Reading it does not allocate a string for each of its thousand names.
type request struct {
	variant variant
	intern  *interner
	likely  *names // the names of the stream's last request, which every ACK repeats: compared, not parsed
	asked   asked  // the types of the stream's requests so far

	size        int    // of the message, in bytes
	fault       error  // why the other fields are not valid
	node        []byte // encoded; it is certain only in a stream's first request
	typeURL     string
	nonce       string
	refusal     string   // why the response was refused; never "" for a refused response
	version     string   // state of the world
	names       *names   // all, in the state of the world; in a delta those to subscribe
	unsubscribe *names   // delta
	initial     versions // delta; none unless it is the stream's first request for the type
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

func fieldOf(v variant, n protowire.Number) requestField {
	fields := [...]requestField{
		1: fieldOfVersion, 2: fieldOfNode, 3: fieldOfNames, 4: fieldOfTypeURL, 5: fieldOfNonce, 6: fieldOfError,
	}
	if v == delta {
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

// read scans a message. It keeps nothing of data.
func (r *request) read(data []byte) error {
	*r = request{variant: r.variant, intern: r.intern, likely: r.likely, asked: r.asked, size: len(data)}
	var repeated runs
	for len(data) > 0 {
		if run, ok := r.repeats(data); ok {
			r.names, data = r.likely, data[run:]
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
		if f := fieldOf(r.variant, number); f != skip {
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
func (r *request) repeats(data []byte) (int, bool) {
	if r.likely == nil || r.names != nil {
		return 0, false
	}
	return r.likely.begin(data)
}

func (r *request) decodeField(f requestField, value []byte) error {
	switch f {
	case fieldOfNode:
		if len(value) > maxNode {
			return fmt.Errorf("node has %d bytes, at most %d are allowed", len(value), maxNode)
		}
		r.node = append([]byte(nil), value...)
	case fieldOfVersion:
		r.version = string(value[:min(len(value), maxToken)])
	case fieldOfNonce:
		r.nonce = string(value[:min(len(value), maxToken)])
	case fieldOfTypeURL:
		r.typeURL = internType(value)
	case fieldOfError:
		var detail statuspb.Status
		if err := proto.Unmarshal(value, &detail); err != nil {
			return err
		}
		r.refusal = cmp.Or(clip(detail.Message), "refused without a reason")
	}
	return nil
}

func (r *request) takeRuns(repeated *runs) (err error) {
	if run := repeated[fieldOfNames].bytes; len(run) > 0 {
		if r.names != nil { // they are not adjacent
			run = append(r.names.fields(), run...)
		}
		if r.names, err = r.intern.ofWire(run); err != nil {
			return err
		}
	}
	if initial := repeated[fieldOfInitial].bytes; !r.asked.first(r.typeURL) {
		err = checkEntries(initial)
	} else {
		r.initial, err = r.intern.ofVersions(initial)
	}
	if err != nil {
		return err
	}
	r.unsubscribe, err = r.intern.ofWire(repeated[fieldOfUnsubscribe].bytes)
	return err
}

// maxNode is how many bytes a node may have: Kubernetes allows the annotations of a Pod, which Istio's agent puts into it,
// as many.
const maxNode = 256 << 10

// maxToken is how many bytes are kept of a version or a nonce. This server's have fewer: the beginning of a longer one
// equals none of them.
const maxToken = 128

// maxText is how many bytes of a client's error text are kept.
const maxText = 4 << 10

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

func internType(value []byte) string {
	for k := range kinds {
		if string(value) == k.typeURL() {
			return k.typeURL()
		}
	}
	return clip(string(value))
}

// parseNode decodes the node that the request holds.
func (r *request) parseNode() (*corev3.Node, error) {
	n := &corev3.Node{}
	if err := proto.Unmarshal(r.node, n); err != nil {
		return nil, err
	}
	return n, nil
}

// done drops the large values of a request that was answered. The request itself lasts until the next one comes.
func (r *request) done() { r.node, r.initial = nil, versions{} }

// asked marks the types that a stream has requested, and at last the request without a type, which the services of one
// kind allow. The resources that a client reports count in its first request for a type; elsewhere they are only
// checked, so that they cost no memory.
type asked [kinds + 1]bool

// first reports whether a request is the first for a type that may be served, and marks it.
func (a *asked) first(typeURL string) bool {
	k, served := kindOf(typeURL)
	switch {
	case typeURL == "":
		k = kinds
	case !served:
		return false
	}
	before := a[k]
	a[k] = true
	return !before
}

// readOrBlame records a read error in the request, for the stream to report: gRPC would report it as an internal error
// of the server.
func (r *request) readOrBlame(data []byte) {
	if err := r.read(data); err != nil {
		r.fault = fmt.Errorf("read discovery request: %w", err)
	}
}
