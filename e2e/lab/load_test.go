package lab

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An answer that is later than the limit is a failure, though it came.
func TestLoadJudgesTheTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("late")) }))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, test := range []struct {
		name, want string
		limit      time.Duration
		connected  bool
	}{
		{"in time", "", loadLimit, false},
		{"a late connection", "the connection took ", -time.Hour, false},
		{"a late answer", "the answer took ", -time.Hour, true},
	} {
		l := &Load{address: address, request: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), limit: loadLimit}
		var c *connection
		if test.connected {
			if _, _, err := l.exchange(&c); err != nil {
				t.Fatal(err)
			}
		}
		l.limit = test.limit
		body, _, err := l.exchange(&c)
		c.close()
		switch {
		case test.want == "" && (err != nil || body != "late"):
			t.Errorf("%s: %q, %v", test.name, body, err)
		case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
			t.Errorf("%s: %q, %v, want %s", test.name, body, err, test.want)
		}
	}
}

// Many are started, and the kernel is asked once.
func TestStopwatches(t *testing.T) {
	var all stopwatches
	first := all.start()
	all.last.waited -= time.Hour
	if second := all.start(); second.waited != first.waited-time.Hour || second.began.Before(first.began) {
		t.Errorf("%+v after %+v", second, first)
	}
	all.last.began = all.last.began.Add(-time.Minute)
	if third := all.start(); third.waited < first.waited {
		t.Errorf("%+v after %+v, a minute later", third, first)
	}
}
