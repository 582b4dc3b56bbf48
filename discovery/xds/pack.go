package xds

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// pack encodes a message as an Any, always with the same bytes. It can fail only on text that is not UTF-8, and all
// text here was decoded from protobuf or JSON, whose decoders reject it.
func pack(m proto.Message) *anypb.Any {
	packed := &anypb.Any{}
	if err := anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return packed
}
