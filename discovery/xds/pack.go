package xds

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// pack puts a message into an Any, with the same bytes each time. It can only fail on text that is not UTF-8, and all
// text here was decoded by protobuf or JSON, which refuse it.
func pack(m proto.Message) *anypb.Any {
	packed := &anypb.Any{}
	if err := anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return packed
}
