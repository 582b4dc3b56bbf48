package frame

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Fields are those of protobuf's own encoder.
func TestFields(t *testing.T) {
	message, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: "t", ResourceNamesSubscribe: []string{"a", "b"}, ResponseNonce: "n",
	})
	if err != nil {
		t.Fatal(err)
	}
	message = protowire.AppendVarint(protowire.AppendTag(message, 90, protowire.VarintType), 1<<40)
	message = protowire.AppendFixed32(protowire.AppendTag(message, 91, protowire.Fixed32Type), 1)
	message = protowire.AppendFixed64(protowire.AppendTag(message, 92, protowire.Fixed64Type), 1)
	var got []string
	err = Fields(message, func(number int, value []byte) error {
		got = append(got, string(rune('0'+number))+string(value))
		return nil
	})
	if want := []string{"2t", "3a", "3b", "6n"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	stop := errors.New("stop")
	if err := Fields(message, func(int, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the function's own error", err)
	}
}

// Fields refuses each message that protobuf's decoder refuses, and Append encodes a field as protobuf does.
func FuzzFields(f *testing.F) {
	f.Add([]byte("\x0a\x01a"))
	f.Add([]byte("\x0a\x7fa"))
	f.Add([]byte("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		size := 0
		err := Fields(message, func(number int, value []byte) error {
			size += len(value)
			appended := protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType), value)
			if got := Append(nil, number, value); len(value) > 0 && number < 1<<29 && !bytes.Equal(got, appended) {
				t.Errorf("field %d of %q: got %q, want %q", number, value, got, appended)
			}
			return nil
		})
		if size > len(message) {
			t.Errorf("%q has values of %d bytes", message, size)
		}
		for rest := message; err == nil && len(rest) > 0; {
			number, _, n := protowire.ConsumeField(rest)
			if n < 0 && number < 1<<29 {
				t.Fatalf("%q is taken, and protobuf refuses it: %v", message, protowire.ParseError(n))
			}
			if n < 0 {
				return
			}
			rest = rest[n:]
		}
	})
}

func TestRead(t *testing.T) {
	var wire bytes.Buffer
	for _, message := range []string{"", "abc"} {
		if err := Write(&wire, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, wire, want, err string }{
		{"two messages", wire.String(), "|abc|", "EOF"},
		{"nothing", "", "", "EOF"},
		{"half a head", "\x00\x00", "", "unexpected EOF"},
		{"half a message", "\x00\x00\x00\x00\x03a", "", "a message ends early: unexpected EOF"},
		{"compressed", "\x01\x00\x00\x00\x00", "", "a message of 0 bytes, compressed 1: want at most 3 and 0"},
		{"too long", "\x00\x00\x00\x00\x04abcd", "", "a message of 4 bytes, compressed 0: want at most 3 and 0"},
		{"far too long", "\x00\xff\xff\xff\xff", "", "a message of 4294967295 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, from := "", io.Reader(strings.NewReader(test.wire))
			for {
				message, err := Read(from, 3)
				if err != nil {
					if got != test.want || !strings.HasPrefix(err.Error(), test.err) {
						t.Errorf("got %q, %v, want %q, %q", got, err, test.want, test.err)
					}
					return
				}
				got += string(message) + "|"
			}
		})
	}
}
