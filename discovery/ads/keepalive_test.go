package ads

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A client that asks for signs of life more often than every five seconds is told to calm down, and is gone. Envoy's
// own pace is no fault, with or without a stream.
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
				r.Push(meshOf(1, "a"), model.Change{})
				conn, err := r.listener.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				wire := http2.NewFramer(conn, conn)
				goodbye := make(chan http2.ErrCode, 1)
				go func() {
					defer close(goodbye)
					for {
						f, err := wire.ReadFrame()
						if err != nil {
							return
						}
						if away, ok := f.(*http2.GoAwayFrame); ok {
							goodbye <- away.ErrCode
							return
						}
					}
				}()
				_, err = io.WriteString(conn, http2.ClientPreface)
				if err := errors.Join(err, wire.WriteSettings(), wire.WriteSettingsAck()); err != nil {
					t.Fatal(err)
				}
				var code http2.ErrCode
				refused := false
				for i := range byte(20) {
					pass(test.every)
					if wire.WritePing(false, [8]byte{i}) != nil {
						break
					}
				}
				conn.Close()
				code, refused = <-goodbye
				if refused != test.refused || refused && code != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("sent away: %t with %s, want %t", refused, code, test.refused)
				}
			})
		})
	}
}
