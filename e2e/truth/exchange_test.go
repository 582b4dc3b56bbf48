package truth

import (
	"fmt"
	"testing"
	"time"
)

// A record of a connection is not that of a later one from the same port.
func TestARecordOfAnEarlierConnection(t *testing.T) {
	const ends = "127.0.0.1:50000>127.0.0.1:80"
	at := time.UnixMilli(1_700_000_000_500)
	line := func(began time.Time, cluster string) string {
		return fmt.Sprintf("truth - %s 0 - %s 127.0.0.2:80 1 7 %d\n", ends, cluster, began.UnixMilli())
	}
	for name, test := range map[string]struct{ log, want string }{
		"none":              {"", ""},
		"its own":           {line(at, "own"), "own"},
		"an earlier one":    {line(at.Add(-time.Second), "earlier"), ""},
		"both":              {line(at.Add(-time.Second), "earlier") + line(at, "own"), "own"},
		"the earlier later": {line(at, "own") + line(at.Add(-time.Second), "earlier"), "own"},
	} {
		e := Exchange{Number: 1, Ends: ends, began: at.Add(400 * time.Microsecond)}
		if did, found := e.did(Read(test.log)); did.Cluster != test.want || found != (test.want != "") {
			t.Errorf("%s: %+v, %t, want %q", name, did, found, test.want)
		}
	}
}
