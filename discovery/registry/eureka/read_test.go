package eureka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// repeated is an answer that is made while it is read.
type repeated struct {
	begin string
	again func(i int) string
	times int
	end   string
}

// write writes it, and calls each after every few MiB.
func (r repeated) write(to io.Writer, each func()) {
	_, _ = io.WriteString(to, r.begin)
	written, before := 0, 0
	for i := range r.times {
		n, err := io.WriteString(to, r.again(i))
		if err != nil {
			return
		}
		if written += n; written-before > 4<<20 {
			before = written
			each()
		}
	}
	_, _ = io.WriteString(to, r.end)
	each()
}

// block returns a text in the middle of a string.
func block(int) string { return oneMiB }

var oneMiB = strings.Repeat("x", 1<<20)

const plainInstance = `{"instanceId": "last", "ipAddr": "10.0.0.1", "status": "UP", "vipAddress": "a", "port": {"$": 80, "@enabled": "true"}}`

// A long answer needs the memory of what is kept of it, also while it is read.
func TestALongAnswerCostsWhatIsKept(t *testing.T) {
	list := func(of string) string {
		return `{"applications": {"apps__hashcode": "", "application": [{"name": "A", "instance": [` + of
	}
	const end = `, ` + plainInstance + `]}]}}`
	usual := func(i int) string {
		return fmt.Sprintf(`{"instanceId": "host-%d:web:8080", "hostName": "host-%d", "app": "WEB", "ipAddr": "10.0.0.1", "status": "UP", "vipAddress": "web", `+
			`"port": {"$": 8080, "@enabled": "true"}, "metadata": {"zone": "eu-1"}, "healthCheckUrl": %q}, `, i, i, oneMiB[:1900])
	}
	entries := func(i int) string {
		var out strings.Builder
		fmt.Fprintf(&out, `{"instanceId": "%d", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 80, "@enabled": "true"}, "metadata": {"a": ""`, i)
		for n := range 20_000 {
			fmt.Fprintf(&out, `,"%d":""`, n)
		}
		return out.String() + "}}, "
	}
	for _, tt := range []struct {
		name       string
		answer     repeated
		records    int
		kept, peak uint64 // MB
	}{
		{"a field that is not read", repeated{list(`{"instanceId": "1", "statusPageUrl": "`), block, 60, `"}` + end}, 2, 1, 12},
		{"metadata of one value", repeated{list(`{"instanceId": "1", "metadata": {"x": "`), block, 60, `"}}` + end}, 2, 1, 12},
		{"a field beside the applications", repeated{`{"x": "`, block, 60, `", ` + list("")[1:] + end[1:]}, 1, 1, 12},
		{"the name of a field", repeated{`{"`, block, 60, `": 1, ` + list("")[1:] + end[1:]}, 1, 1, 12},
		{"lists in lists", repeated{list(`{"instanceId": "1", "countryId": `), func(i int) string {
			return strings.Repeat([2]string{"[", "]"}[i/30], 1<<20)
		}, 60, `}` + end}, 2, 1, 12},
		{"applications without instances", repeated{`{"applications": {"application": [`, func(int) string { return strings.Repeat("{},", 1<<16) }, 100, `{"instance": ` + plainInstance + `}]}}`}, 1, 1, 12},
		{"29,000 usual instances", repeated{list(""), usual, 29_000, end[2:]}, 29_001, 40, 110},
		{"metadata of many entries", repeated{list(""), entries, 70, end[2:]}, 71, 10, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, now runtime.MemStats
			most := uint64(0)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				tt.answer.write(w, func() {
					runtime.ReadMemStats(&now)
					most = max(most, now.HeapAlloc)
				})
			}))
			defer server.Close()
			s := New(Config{URLs: []string{server.URL}}, slog.New(slog.DiscardHandler))
			runtime.GC()
			runtime.ReadMemStats(&before)
			if err := s.read(t.Context(), server.Client(), true); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			runtime.GC()
			runtime.ReadMemStats(&now)
			if len(s.registry.records) != tt.records {
				t.Errorf("%d records, want %d", len(s.registry.records), tt.records)
			}
			kept, peak := (now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))>>20, (most-min(most, before.HeapAlloc))>>20
			t.Logf("%d MB are kept, %d MB were in use at most", kept, peak)
			if kept > tt.kept || peak > tt.peak {
				t.Errorf("%d MB are kept, %d MB were in use at most: want %d and %d", kept, peak, tt.kept, tt.peak)
			}
		})
	}
}

// A long field is a fault of its instance, which keeps its place in the hash code; it does not affect other instances.
func TestALongFieldIsAFault(t *testing.T) {
	long := strings.Repeat("x", mostField)
	got, err := readAnswer(strings.NewReader(`{"x": [{"y": "}\\\""}], "applications": {"application": {"instance": [
		{"metadata": {"k": "` + long + `"}, "instanceId": "1", "status": "DOWN", "port": {"$": 80, "@enabled": "true"}}, ` + plainInstance + `, "none", null,
		{"unread": "` + long + `", "instanceid": "2"}], "name": "a"}, "apps__hashcode": "DOWN_1_"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range got.changes {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", c.app, c.id, c.status, c.fault))
	}
	want := []string{
		"A 1 DOWN metadata is longer than 256 KiB", "A last UP ", "A   json: cannot unmarshal string into Go value of type eureka.instance",
		"A   it has neither an instanceId nor a hostName", "A 2  ",
	}
	if !slices.Equal(lines, want) || got.hash != "DOWN_1_" {
		t.Errorf("hash code %q, found\n%q, want\n%q", got.hash, lines, want)
	}
}

// An answer that is not JSON, or is longer than a bound, is an error, wherever the fault is.
func TestBoundsOfAnAnswer(t *testing.T) {
	long := strings.Repeat("x", mostText)
	within := func(text string) string { return `{"applications": {"application": {"instance": [` + text }
	for _, tt := range []struct{ text, want string }{
		{`{"applications": {"apps__hashcode": "` + long + `"}}`, "apps__hashcode is longer than 16 KiB"},
		{`{"applications": {"application": {"name": "` + long + `"}}}`, "name is longer than 16 KiB"},
		{within(strings.Repeat("{},", mostInstances) + "{}]}}}"), "the answer has more than 100000 instances"},
		{`{"applications": []}`, `invalid character '[', want '{'`},
		{`{"applications" 1}`, `invalid character '1', want ':'`},
		{`{"applications": {} "x": 1}`, `invalid character '"', want ','`},
		{`{"x": 1, applications: {}}`, `invalid character 'a' looking for the name of a field`},
		{`{"x": , "applications": {}}`, `invalid character ',' looking for beginning of value`},
		{`{"applications": {"application": tru}}`, `cannot unmarshal "tru" as application, want a list`},
		{within(`{"instanceId": "1", "port": {"$": 1 2}}]}}}`), "invalid character '2' after object key:value pair"},
		{within(`{"instanceId": "1"`), "unexpected EOF"},
		{within(`{"instanceId": "1"}]}}`), "unexpected EOF"},
		{within(`{"instanceId": "1`), "unexpected EOF"},
		{`{"x`, "unexpected EOF"},
	} {
		if _, err := readAnswer(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s: %v, want %s", tt.text, err, tt.want)
		}
	}
	for _, text := range []string{`{}`, `{"applications": null}`, `{"x": {"applications": {}}}`} {
		if got, err := readAnswer(strings.NewReader(text)); got != nil || err != nil {
			t.Errorf("%s: %v, %v, want nothing", text, got, err)
		}
	}
}

// What is kept of an answer is what encoding/json finds in it.
func FuzzPieces(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": "\"}"}], "A": null, "c": {"d": [[]]}, "e": "ä"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := map[string]json.RawMessage{}
		valid := json.Unmarshal(data, &want) == nil
		p, got, whole := newPieces(bytes.NewReader(data)), map[string]json.RawMessage{}, true
		err := p.object(func(name string) error {
			raw, fits, err := p.value(len(data))
			whole, got[name] = whole && fits && name != "", bytes.Clone(raw)
			return err
		})
		if !valid || bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
			return // what is not kept is not checked
		}
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if whole && !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%q: found %q, want %q", data, got, want)
		}
	})
}

// The names of one instance cost what they are, not their square, and those beyond a bound are named as left out.
func TestManyNamesOfAnInstance(t *testing.T) {
	var names strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&names, "n%d.bank.com,", i)
	}
	r := newRegistry(granted)
	r.whole(parse(t, `{"application": {"name": "a", "instance": {"instanceId": "1", "ipAddr": "10.0.0.1", "status": "UP", "vipAddress": "`+names.String()+
		`", "port": {"$": 80, "@enabled": "true"}}}}`), time.Time{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	groups := groupsOf(r)
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 4 {
		t.Errorf("%d names of one instance cost %d MB", 3000, grown)
	}
	const want = "instance 1 of application A: vipAddress has 3000 names, want at most 64: the others are left out"
	if g := groups["n0.bank.com"]; len(groups) != mostNames || !slices.Contains(g.Faults, want) {
		t.Errorf("%d groups, the first with %q", len(groups), g.Faults[:min(3, len(g.Faults))])
	}
}
