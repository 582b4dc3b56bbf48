package notes

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDifference(t *testing.T) {
	note := func(code model.Code, name, path string, line int) model.Note {
		return model.Note{Code: code, Meta: model.Meta{Name: name, Origin: model.Origin{Line: line}}, Path: path}
	}
	a, b := note(model.UnknownHost, "a", "x", 1), note(model.UnknownHost, "b", "x", 1)
	for name, test := range map[string]struct{ last, now, added, mended []model.Note }{
		"nothing":            {},
		"new":                {nil, []model.Note{a, b}, []model.Note{a, b}, nil},
		"mended":             {[]model.Note{a, b}, []model.Note{b}, nil, []model.Note{a}},
		"both":               {[]model.Note{a}, []model.Note{b}, []model.Note{b}, []model.Note{a}},
		"moved":              {[]model.Note{a}, []model.Note{note(model.UnknownHost, "a", "x", 9)}, nil, nil},
		"twice":              {nil, []model.Note{a, a}, []model.Note{a}, nil},
		"another field":      {[]model.Note{a}, []model.Note{note(model.UnknownHost, "a", "y", 1), a}, []model.Note{note(model.UnknownHost, "a", "y", 1)}, nil},
		"another mistake":    {[]model.Note{a}, []model.Note{note(model.UnknownPort, "a", "x", 1), a}, []model.Note{note(model.UnknownPort, "a", "x", 1)}, nil},
		"nothing new at all": {[]model.Note{a, b}, []model.Note{b, a}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			added, mended := difference(test.last, test.now)
			if diff := cmp.Diff([][]model.Note{test.added, test.mended}, [][]model.Note{added, mended}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A note of a record names the version of the record; a note of a conflict names the place of the winner. The same
// object in two clusters has separate notes.
func TestNotesTellTheOrigin(t *testing.T) {
	record := func(cluster string) model.Meta {
		r := &model.Record{Cluster: cluster, UID: "u1", Generation: 3, Version: "77"}
		return model.Meta{Kind: "Service", Namespace: "n", Name: "a", Origin: model.Origin{Record: r}}
	}
	winner := model.Meta{Kind: "ServiceEntry", Namespace: "n", Name: "b", Origin: model.Origin{File: "b.yaml", Line: 4}}
	var log bytes.Buffer
	reporter := New(nil, slog.New(slog.NewTextHandler(&log, nil)))
	of := func(cluster string) model.Note {
		return model.Note{Code: model.Conflict, Meta: record(cluster), Path: "ports", Message: "lost", Other: winner}
	}
	reporter.report([]model.Note{of("east"), of("west")})
	const want = `code=conflict cluster=west uid=u1 generation=3 version=77 object="Service n/a" field=ports reason=lost ` +
		`winner="ServiceEntry n/b" winnerOrigin=b.yaml:4`
	if n := strings.Count(log.String(), "configuration note"); n != 2 || !strings.Contains(log.String(), want) {
		t.Errorf("told %d notes, want 2, one with %s:\n%s", n, want, &log)
	}
	log.Reset()
	changed := of("east")
	changed.Meta.Origin.Record = &model.Record{Cluster: "east", UID: "u1", Generation: 4, Version: "78"}
	reporter.report([]model.Note{changed})
	if n := strings.Count(log.String(), "mended"); n != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("another version of the object makes another note:\n%s", &log)
	}
}

// meshOf returns a mesh with a service a.test, and a rule at the given line for each other host.
func meshOf(line int, hosts ...string) *model.Mesh {
	g := model.Group{Services: []*model.Service{{Right: model.RightFull, Host: "a.test", Namespace: "n"}}}
	for _, host := range hosts {
		g.Objects = append(g.Objects, &model.Object{
			Meta: model.Meta{Kind: "DestinationRule", Namespace: "n", Name: host, Origin: model.Origin{File: "f", Line: line}},
			Spec: &networking.DestinationRule{Host: host, ExportTo: []string{"clients"}},
		})
	}
	return model.New(slices.Values([]model.Group{g}))
}

// guarded is a log that one goroutine writes and another reads.
type guarded struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *guarded) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(line)
}

func (g *guarded) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.text.Reset()
	return g.text.String()
}

// The warnings of an object are among the notes and are counted, and its source has logged them.
func TestWarningsAreNotLoggedTwice(t *testing.T) {
	var log bytes.Buffer
	reporter := New(nil, slog.New(slog.NewTextHandler(&log, nil)))
	meta := model.Meta{Kind: "Sidecar", Namespace: "n", Name: "a"}
	reporter.report([]model.Note{
		{Code: model.Warned, Meta: meta, Path: "spec.x", Message: "is old"},
		{Code: model.Warned, Meta: meta, Path: "spec.y", Message: "is old"},
		{Code: model.EmptySelector, Meta: meta},
	})
	if len(reporter.Notes()) != 3 || testutil.CollectAndCount(reporter) != 2 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "empty-selector") {
		t.Errorf("of %d notes the log has\n%s", len(reporter.Notes()), &log)
	}
	if reporter.report(nil); strings.Count(log.String(), "mended") != 1 {
		t.Errorf("what is mended is logged as\n%s", &log)
	}
}

func TestReporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log guarded
		var connected atomic.Pointer[[]model.Proxy]
		connected.Store(&[]model.Proxy{{Namespace: "clients"}})
		reporter := New(func() []model.Proxy { return *connected.Load() }, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- reporter.Run(ctx) }()
		// told waits, and compares the notes that were logged since the last call with want.
		told := func(wait time.Duration, want ...string) {
			t.Helper()
			<-time.After(wait)
			synctest.Wait()
			var got []string
			for line := range strings.Lines(log.take()) {
				m := regexp.MustCompile(`msg="(.*?)".* code=(\S+) .*line=(\d+) object="DestinationRule n/(\S+)"`).FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("the log has %s", line)
				}
				got = append(got, strings.Join(m[1:], " "))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		reporter.Judge(meshOf(1, "a.test", "b.test"))
		told(0, "configuration note unknown-host 1 b.test")
		reporter.Judge(meshOf(2, "b.test", "c.test")) // replaced by the next before it is judged
		reporter.Judge(meshOf(3, "b.test", "d.test"))
		told(0)
		told(time.Second, "configuration note unknown-host 3 d.test")
		if err := testutil.CollectAndCompare(reporter, strings.NewReader(
			"# HELP pilotlight_config_notes What is to be said of configuration that is served, by code: see /debug/notes.\n"+
				"# TYPE pilotlight_config_notes gauge\npilotlight_config_notes{code=\"unknown-host\"} 2\n")); err != nil {
			t.Error(err)
		}
		reporter.Judge(meshOf(4, "b.test"))
		told(time.Second, "configuration note mended unknown-host 3 d.test")
		connected.Store(&[]model.Proxy{}) // proxies disconnect, and the mesh stays
		told(recheckInterval+time.Second, "configuration note unknown-namespace 4 b.test")
		if notes := reporter.Notes(); len(notes) != 2 {
			t.Errorf("notes are %v", notes)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Where a newer mesh and an order to judge again wait, the newer mesh is judged.
func TestANewerMeshIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reporter := New(func() []model.Proxy { return nil }, slog.New(slog.DiscardHandler))
		var last atomic.Pointer[model.Mesh]
		reporter.OnJudged(func(m *model.Mesh, _ []model.Note) { last.Store(m) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- reporter.Run(ctx) }()
		meshes := []*model.Mesh{meshOf(1, "a.test"), meshOf(2, "a.test")}
		reporter.Judge(meshes[1])
		synctest.Wait()
		for n := range 20 { // both come while it pauses
			reporter.Judge(meshes[n%2])
			reporter.Recheck()
			<-time.After(minPause)
			synctest.Wait()
			if last.Load() != meshes[n%2] {
				t.Errorf("mesh %d: an older one is judged", n)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
