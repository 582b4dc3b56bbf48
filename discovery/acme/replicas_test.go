package acme

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A report lives from when it was seen to change, whatever its own clock says.
func TestReportsLive(t *testing.T) {
	heard := Hear(nil, map[string]Report{"a": {At: start.Add(-24 * time.Hour)}, "b": {At: start.Add(24 * time.Hour)}}, start)
	if got := live(heard, "own", start.Add(29*time.Second)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("live are %q", got)
	}
	heard = Hear(heard, map[string]Report{"a": {At: start.Add(-23 * time.Hour)}, "b": {At: start.Add(24 * time.Hour)}}, start.Add(20*time.Second))
	if got := live(heard, "own", start.Add(31*time.Second)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("live are %q, want the one that has said something", got)
	}
	if got := live(heard, "a", start.Add(31*time.Second)); len(got) != 0 {
		t.Errorf("live beside a are %q", got)
	}
}

// A report that is not there, as when its Secret was deleted by hand, says nothing of its replica: the last one counts for as long as one that has not changed.
func TestAMissingReportIsNone(t *testing.T) {
	heard := Hear(nil, map[string]Report{"b": {Shown: map[string]int{"tok": 1}}}, start)
	for _, row := range []struct {
		after time.Duration
		want  string
	}{{time.Second, "b"}, {29 * time.Second, "b"}, {30 * time.Second, ""}} {
		at := start.Add(row.after)
		heard := Hear(heard, nil, at)
		if got := strings.Join(live(heard, "own", at), " "); got != row.want {
			t.Errorf("after %s %q live, want %q", row.after, got, row.want)
		}
		if lacking := Lacking(heard, "own", at, Question{Token: "new"}, 1, nil); len(lacking) != len(row.want) {
			t.Errorf("after %s a question lacks %q", row.after, lacking)
		}
	}
}

// An issuer is told to ask when each replica that lives says that all of its gateways answer, and there is one.
func TestLacking(t *testing.T) {
	q := Question{Host: "a.test", Token: "tok"}
	shown := func(n int) Heard { return Heard{Report{Shown: map[string]int{"tok": n}}, start} }
	silent := Heard{Report{}, start}
	for _, row := range []struct {
		name    string
		heard   map[string]Heard
		serving int
		behind  []string
		after   time.Duration
		want    string
	}{
		{"alone", nil, 1, nil, 0, ""},
		{"alone, a gateway is behind", nil, 1, []string{"gw"}, 0, "gw"},
		{"no gateway anywhere", map[string]Heard{"own": silent, "b": shown(0)}, 0, nil, 0, "none that serves a.test at port 80 is connected and has accepted it"},
		{"a gateway of another replica", map[string]Heard{"own": silent, "b": shown(2)}, 0, nil, 0, ""},
		{"another replica has not said so", map[string]Heard{"b": silent}, 1, nil, 0, "gateways of the replica b"},
		{"one of two others", map[string]Heard{"b": shown(1), "c": silent}, 1, nil, 0, "gateways of the replica c"},
		{"one that is silent is waited for", map[string]Heard{"b": silent}, 1, nil, 29 * time.Second, "gateways of the replica b"},
		{"and then not", map[string]Heard{"b": silent}, 1, nil, 30 * time.Second, ""},
		{"one that was silent has no gateways", map[string]Heard{"b": shown(1)}, 0, nil, 30 * time.Second, "none that serves a.test at port 80 is connected and has accepted it"},
	} {
		if got := strings.Join(Lacking(row.heard, "own", start.Add(row.after), q, row.serving, row.behind), ", "); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// A report is written when it changes and every ten seconds; what others have stopped to say is removed, and nothing else.
func TestReportsAreWritten(t *testing.T) {
	says := Report{Kinds: []Kind{{"edge", map[string]string{"a": "b"}}}, Shown: map[string]int{"tok": 1}}
	stored := map[string]Report{"own": {At: start, Kinds: says.Kinds, Shown: says.Shown}, "b": {At: start}}
	heard := Hear(nil, stored, start)
	for _, row := range []struct {
		name  string
		says  Report
		after time.Duration
		want  string // names
	}{
		{"nothing new", says, 9 * time.Second, ""},
		{"ten seconds", says, 10 * time.Second, "b own"},
		{"a question", Report{Kinds: says.Kinds}, time.Second, "b own"},
		{"a gateway", Report{Shown: says.Shown}, time.Second, "b own"},
		{"a clock that was set back", says, -time.Hour, "b own"},
		{"another one is gone", says, 5 * time.Minute, "own"},
	} {
		next := Reports(stored, heard, "own", row.says, start.Add(row.after))
		if got := strings.Join(slices.Sorted(maps.Keys(next)), " "); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		if next != nil && (!next["own"].same(row.says) || !next["own"].At.Equal(start.Add(row.after))) {
			t.Errorf("%s: %+v", row.name, next["own"])
		}
	}
	if next := Reports(nil, nil, "own", says, start); len(next) != 1 {
		t.Errorf("the first report: %v", next)
	}
}

// Other replicas are told of kinds of gateways, by the labels that Gateways select: not of each Pod.
func TestKindsOfGateways(t *testing.T) {
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{gateway("shop", "g", "gw", server(443, "lets", "a.test"), server(80, "", "*"))}}}))
	var connected []model.Proxy
	for i := range 5 {
		p := workload("edge", "gw")
		p.Labels["pod"] = fmt.Sprint(i)
		connected = append(connected, p)
	}
	connected = append(connected, workload("other", "gw"), model.Proxy{Namespace: "edge", Labels: map[string]string{"gateway": "gw"}})
	kinds, more := KindsOf(m, connected, []string{"edge"})
	if len(kinds) != 1 || more || !maps.Equal(kinds[0].Labels, map[string]string{"gateway": "gw"}) {
		t.Fatalf("kinds %v", kinds)
	}
	heard := Hear(nil, map[string]Report{"b": {Kinds: kinds}, "own": {Kinds: []Kind{{"own", nil}}}}, start)
	sets, _ := Wanted(m, Elsewhere(heard, "own", start), []string{"edge", "own"}, []string{"lets"}, nil)
	if len(sets) != 1 || sets[0].Key() != "edge lets a.test" || len(sets[0].NoHTTP) > 0 {
		t.Errorf("gateways of another replica need %+v", sets)
	}
	if sets, _ := Wanted(m, Elsewhere(heard, "own", start.Add(time.Minute)), []string{"edge"}, []string{"lets"}, nil); len(sets) > 0 {
		t.Errorf("gateways of a replica that is silent need %+v", sets)
	}
	connected = nil
	for i := range maxKinds + 1 {
		connected = append(connected, workload("edge", fmt.Sprint("gw", i)))
	}
	if kinds, more := KindsOf(m, connected, []string{"edge"}); len(kinds) != maxKinds || !more {
		t.Errorf("%d kinds, more %t", len(kinds), more)
	}
}

func TestFollow(t *testing.T) {
	held := Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}}.Issued([]byte("k"), []byte("c"), start, start.Add(time.Hour))
	other := held
	other.Chain = []byte("other")
	ordered := Record{}.Ordered("https://a.test/1", []byte("k"))
	for _, row := range []struct {
		name        string
		known       Record
		stored      *Record
		mine        bool
		want        Record
		keep, write bool
	}{
		{"what is stored counts", held, &other, false, other, true, false},
		{"but for a try of one's own", held, &other, true, held, true, true},
		{"nothing is known, or stored", Record{}, nil, false, Record{}, false, false},
		{"a certificate that was deleted", held, nil, false, held, true, true},
		{"an order that was deleted", ordered, nil, false, ordered, true, true},
		{"a certificate that has ended", Record{Chain: []byte("c"), NotAfter: start.Add(-time.Hour)}, nil, false, Record{}, false, false},
		{"a failure that was deleted", Record{Next: start.Add(time.Hour)}, nil, false, Record{Next: start.Add(time.Hour)}, true, false},
	} {
		next, keep, write := Follow(row.known, row.stored, row.mine, start)
		if string(next.Chain) != string(row.want.Chain) || !next.Next.Equal(row.want.Next) || keep != row.keep || write != row.write {
			t.Errorf("%s: %+v, keep %t, write %t", row.name, next, keep, write)
		}
	}
}

// What is needed is not forgotten; of the rest, certificates that end first are.
func TestExcess(t *testing.T) {
	records, wanted := map[string]Record{}, []Set{}
	for i, host := range []string{"a", "b", "c", "d"} {
		r := Record{Hosts: []string{host}, NotAfter: start.Add(time.Duration(-i) * time.Hour)}
		records[host] = r
		if host == "d" {
			wanted = append(wanted, r.Set())
		}
	}
	for most, want := range map[int]string{4: "", 3: "c", 2: "c b", 0: "c b a"} {
		if got := strings.Join(Excess(records, wanted, most), " "); got != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
}

// Gateways answer for as long as an order is under way, and is of a set that is needed.
func TestAsks(t *testing.T) {
	q := []Question{{"a.test", "tok", "answer"}}
	r := Record{Namespace: "edge", Hosts: []string{"a.test"}}.Ordered("https://a.test/1", nil).Asked(q)
	for _, row := range []struct {
		name   string
		record Record
		wanted []Set
		want   int
	}{
		{"at the start", r, nil, 1},
		{"needed", r, []Set{r.Set()}, 1},
		{"not needed", r, []Set{}, 0},
		{"asked again later", r.Failed(start, "away", 0, false, false, 0), nil, 1},
		{"ended", r.Failed(start, "refused", 0, false, true, 0), nil, 0},
		{"issued", r.Issued(nil, nil, start, start), nil, 0},
	} {
		if got := Asks(map[string]Record{"x": row.record}, row.wanted)["edge"]; len(got) != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}
