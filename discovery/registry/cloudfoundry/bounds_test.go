package cloudfoundry

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func announce(t *testing.T, uris []string, host string, tags map[string]string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"uris": uris, "host": host, "port": 1, "tags": tags})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Messages of a megabyte of tags, and very many of them, cost what is kept; the rest is named or counted, and a route
// that was there stays.
func TestBytesAreBounded(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	table.register(announce(t, []string{"first.cf.test"}, "10.9.9.9", nil), begin)
	tags := map[string]string{}
	for i := range 3000 {
		tags[fmt.Sprintf("key-%04d", i)] = strings.Repeat("x", 240)
	}
	tags["long"] = strings.Repeat("x", model.MaxLabel+1)
	table.register(announce(t, []string{"a.cf.test"}, "10.0.0.1", tags), begin)
	groups := table.unsent()
	if n := len(groups["a.cf.test"].Services[0].Endpoints[0].Labels); n != model.MaxLabels {
		t.Errorf("%d labels are kept", n)
	}
	if faults := groups["a.cf.test"].Faults; len(faults) != 1 || !strings.Contains(faults[0], "2937 tags are left out, want at most 64 of 256 bytes") {
		t.Errorf("the faults are %q", faults)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for key := range tags {
		if key > "key-0063" {
			delete(tags, key)
		}
	}
	refused, text := 0, string(announce(t, []string{"HOST"}, "ADDRESS", tags))
	of := func(host, address string) []byte {
		return []byte(strings.NewReplacer("HOST", host, "ADDRESS", address).Replace(text))
	}
	for i := range 1200 { // of one address
		refused += table.register(of(fmt.Sprintf("b%d.cf.test", i), "10.0.0.2"), begin)
	}
	if table.by["10.0.0.2"] > maxOfPublisher || refused < 100 {
		t.Errorf("%d bytes of one address, %d messages were refused", table.by["10.0.0.2"], refused)
	}
	for i := range 10_000 {
		table.put(fmt.Sprintf("c%d.cf.test", i), instance{address: fmt.Sprintf("10.1.%d.%d", i/250, i%250), labels: map[string]string{"x": strings.Repeat("x", 60<<10)}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if table.bytes > maxBytes || len(table.routes) > 4000 {
		t.Errorf("%d bytes of %d routes are kept", table.bytes, len(table.routes))
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2*maxBytes {
		t.Errorf("%d MB are kept", grown>>20)
	}
	if len(table.routes["first.cf.test"]) != 1 {
		t.Error("the first route is gone")
	}
	for host := range table.routes {
		for place := range table.routes[host] {
			table.drop(host, place)
		}
	}
	for name := range table.faults {
		for publisher := range table.faults[name] {
			table.clearFault(name, publisher)
		}
	}
	if table.bytes != 0 || len(table.by) != 0 || table.entries != 0 {
		t.Errorf("empty, it has %d bytes, %v, %d entries", table.bytes, table.by, table.entries)
	}
}

// Of 40,000 names in one message some are read; the others are counted and the fault says how many.
func TestManyNamesInAMessage(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	uris := make([]string, 40_000)
	for i := range uris {
		uris[i] = fmt.Sprintf("a%d.cf.test", i)
	}
	if refused := table.register(announce(t, uris, "10.0.0.1", nil), begin); refused != len(uris)-maxURIs || len(table.routes) != maxURIs {
		t.Errorf("%d of %d names are refused, %d served", refused, len(uris), len(table.routes))
	}
	if got := strings.Join(shown(table.unsent()), "\n"); !strings.Contains(got, "uris has 40000 names, want at most 256: further ones are left out") {
		t.Errorf("said %.300s", got)
	}
}

// Long names and words of a publisher are refused or shortened.
func TestLongWords(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	long := strings.Repeat("x", 1<<20)
	for _, body := range []string{
		`{"uris":["a.cf.test"],"host":"10.0.0.1","port":1,"app":"` + long + `"}`,
		`{"uris":["b.cf.test"],"host":"` + long + `","port":1}`,
		`{"uris":["c.cf.test"],"host":"10.0.0.1","port":1,"private_instance_id":"` + long + `"}`,
		`{"uris":["d.cf.test"],"host":"10.0.0.1","port":` + strings.Repeat("1", 1<<20) + `}`,
		`{"uris":["` + long + `"],"host":"10.0.0.1","port":1}`,
	} {
		if table.register([]byte(body), begin) != 1 {
			t.Errorf("%.40s is served", body)
		}
	}
	if table.bytes > 10*(overhead+maxURI+maxText+maxFault) {
		t.Errorf("%d bytes are kept", table.bytes)
	}
}
