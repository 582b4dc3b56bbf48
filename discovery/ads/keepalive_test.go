package ads

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A client that sends pings more often than every five seconds gets a GOAWAY (ENHANCE_YOUR_CALM), and its connection is
// closed. Envoy's own keepalive is allowed, with or without a stream.
func TestKeepaliveIsEnforced(t *testing.T) {
	for name, test := range map[string]struct {
		every   time.Duration
		refused bool
	}{
		"a flood":      {100 * time.Millisecond, true},
		"Envoy's pace": {10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t)
				r.Push(adstest.Mesh(1, "a"), model.Change{})
				goodbye := make(chan http2.ErrCode, 1)
				client, gone := r.dialRaw(func(_ *rawClient, f http2.Frame) {
					if away, ok := f.(*http2.GoAwayFrame); ok && len(goodbye) == 0 {
						goodbye <- away.ErrCode
					}
				})
				for i := range byte(20) {
					pass(test.every)
					if client.WritePing(false, [8]byte{i}) != nil {
						break
					}
				}
				client.Close()
				<-gone
				close(goodbye)
				code, refused := <-goodbye
				if refused != test.refused || refused && code != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("sent away: %t with %s, want %t", refused, code, test.refused)
				}
			})
		})
	}
}
