package sds

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// A certificate that is renewed while a request is answered reaches the client too: it would stay unknown to it until the next one.
func TestRenewedDuringAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(new(strings.Builder))
		s.Set(NewSecrets([]byte("chain1"), []byte("key1"), nil))
		ask, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: []string{Certificate}})
		if err != nil {
			t.Fatal(err)
		}
		body, client := io.Pipe()
		var answers [][]byte
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.serve(ctx, writer(func(message []byte) {
				if answers = append(answers, message); len(answers) == 1 {
					s.Set(NewSecrets([]byte("chain2"), []byte("key2"), nil))
				}
			}), http.NewResponseController(httptest.NewRecorder()), body, true)
		}()
		if err := frame.Write(client, ask); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(answers) != 2 || !bytes.Contains(answers[0], []byte("chain1")) || !bytes.Contains(answers[1], []byte("chain2")) {
			t.Errorf("the client is sent %q, want both certificates", answers)
		}
		cancel()
		client.Close()
		<-done
	})
}

// writer is called with each message that is written.
type writer func(message []byte)

func (w writer) Write(p []byte) (int, error) {
	w(bytes.Clone(p))
	return len(p), nil
}
