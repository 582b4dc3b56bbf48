package ads

import (
	"sync"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of everything else
	"google.golang.org/grpc/mem"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// codec writes responses from bytes that all streams share, and reads requests without decoding them. Every other
// protocol of the server uses the standard codec.
type codec struct {
	standard encoding.CodecV2
	scratch  *sync.Pool // of *[]byte; gRPC's own pool clears 1 MB for a request of 48 kB
}

func newCodec() codec {
	return codec{
		standard: encoding.GetCodecV2("proto"),
		scratch:  &sync.Pool{New: func() any { return new([]byte) }},
	}
}

func (c codec) Name() string { return "proto" }

// Marshal never copies a resource. The shared buffers are plain slices without a pool, which would recycle them.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*protocol.Response)
	if !ok {
		return c.standard.Marshal(v)
	}
	out := make(mem.BufferSlice, 0, len(r.News.Parts)+1)
	for _, p := range r.News.Parts {
		pieces, _ := p.Pieces(r.Variant)
		for _, b := range pieces {
			out = append(out, mem.SliceBuffer(b))
		}
	}
	return append(out, mem.SliceBuffer(r.Tail())), nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*protocol.Request)
	if !ok {
		return c.standard.Unmarshal(data, v)
	}
	if len(data) == 1 {
		r.Read(data[0].ReadOnlyData())
		return nil
	}
	scratch := c.scratch.Get().(*[]byte)
	defer c.scratch.Put(scratch)
	if n := data.Len(); cap(*scratch) < n {
		*scratch = make([]byte, n)
	}
	*scratch = (*scratch)[:data.Len()]
	data.CopyTo(*scratch)
	r.Read(*scratch)
	return nil
}
