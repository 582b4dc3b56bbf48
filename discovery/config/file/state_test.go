package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// rule returns a DestinationRule on one line.
func rule(name, host string) string {
	return "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: " + name + "}, spec: {host: " + host + "}}\n"
}

// docs joins objects of one line each.
func docs(objects ...string) string { return strings.Join(objects, "---\n") }

var start0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func file(name, text string) File { return File{Name: name, Data: []byte(text)} }

// lookAt returns the result of a look at files after the last one.
func (s *state) lookAt(files []File) scan {
	l := scan{files: parse(s.file, files)}
	for name := range s.known {
		there := false
		for _, f := range files {
			there = there || f.Name == name
		}
		if !there {
			l.deleted = append(l.deleted, name)
		}
	}
	return l
}

// TestPlan reads directories one after another and compares the changes of each one.
func TestPlan(t *testing.T) {
	const a, b, c = "DestinationRule/default/a", "DestinationRule/default/b", "DestinationRule/default/c"
	const bad = "a..b" // not a valid host
	type step struct {
		files    []File
		changed  map[string]string // the origin and host of each group, "" if it is deleted
		problems []string          // new ones
		refused  []string          // not served
		lastGood []string
	}
	good := file("1.yaml", rule("a", "x"))
	broken := file("1.yaml", docs(rule("a", "x"), rule("b", bad)))
	const fault = `1.yaml:3: error: DestinationRule default/b: spec.host: is "a..b", want DNS labels of letters, digits and '-' between dots`
	const syntax = "1.yaml:3: error: did not find expected node content"

	for name, steps := range map[string][]step{
		"nothing": {{}},
		"only what changed": {
			{files: []File{good, file("2.yaml", rule("b", "y"))}, changed: map[string]string{a: "1.yaml:1 x", b: "2.yaml:1 y"}},
			{files: []File{good, file("2.yaml", rule("b", "y"))}},
			{files: []File{good, file("2.yaml", rule("b", "z"))}, changed: map[string]string{b: "2.yaml:1 z"}},
			{files: []File{good, file("2.yaml", "# moved\n"+rule("b", "z"))}, changed: map[string]string{b: "2.yaml:2 z"}},
			{files: []File{file("1.yaml", rule("a", " 'x'")), file("2.yaml", "# moved\n"+rule("b", "z"))}},
		},
		"an edit moves all that is below it": {
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:1 x", b: "1.yaml:3 y"}},
			{files: []File{file("1.yaml", "# one\n# two\n"+docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:3 x", b: "1.yaml:5 y"}},
			{files: []File{file("1.yaml", docs(rule("a", "z"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:1 z", b: "1.yaml:3 y"}},
		},
		"a deleted file": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1 x"}},
			{changed: map[string]string{a: ""}},
		},
		"a renamed file": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1 x"}},
			{files: []File{file("9.yaml", rule("a", "x"))}, changed: map[string]string{a: "9.yaml:1 x"}},
		},
		"the good objects of a broken file are served at a cold start": {
			{files: []File{broken}, changed: map[string]string{a: "1.yaml:1 x"}, problems: []string{fault}, refused: []string{b + " (1.yaml:3)"}},
			{files: []File{broken}, refused: []string{b + " (1.yaml:3)"}},
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{b: "1.yaml:3 y"}},
		},
		"so are those around a document that cannot be read": {
			{
				files:   []File{file("1.yaml", docs(rule("a", "x"), "a: [\n", rule("c", "z")))},
				changed: map[string]string{a: "1.yaml:1 x", c: "1.yaml:5 z"}, problems: []string{syntax},
			},
		},
		"an object that breaks stays as it was, and the others change": {
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:1 x", b: "1.yaml:3 y"}},
			{files: []File{file("1.yaml", docs(rule("a", "z"), rule("b", bad)))}, changed: map[string]string{a: "1.yaml:1 z"}, problems: []string{fault}, lastGood: []string{b + " (1.yaml:3)"}},
			{
				files:   []File{file("1.yaml", docs("# moved\n"+rule("a", "z"), rule("b", bad)))},
				changed: map[string]string{a: "1.yaml:2 z", b: "1.yaml:4 y"}, lastGood: []string{b + " (1.yaml:4)"},
				problems: []string{strings.Replace(fault, ":3:", ":4:", 1)},
			},
			{files: []File{file("1.yaml", docs("# moved\n"+rule("a", "z"), rule("b", "w")))}, changed: map[string]string{b: "1.yaml:4 w"}},
		},
		"an object that breaks while its file is renamed stays as well": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1 x"}},
			{
				files:   []File{file("2.yaml", docs("# moved\n"+rule("a", bad)))},
				changed: map[string]string{a: "2.yaml:2 x"}, lastGood: []string{a + " (2.yaml:2)"},
				problems: []string{strings.NewReplacer("1.yaml:3", "2.yaml:2", "default/b", "default/a").Replace(fault)},
			},
		},
		"while a document cannot be read nothing is taken from its file, and what is added is served": {
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:1 x", b: "1.yaml:3 y"}},
			{files: []File{file("1.yaml", docs(rule("a", "x"), "a: [\n", rule("c", "z")))}, changed: map[string]string{c: "1.yaml:5 z"}, problems: []string{syntax}},
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("c", "z")))}, changed: map[string]string{b: "", c: "1.yaml:3 z"}},
		},
		"but what has gone to another file is served from there": {
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:1 x", b: "1.yaml:3 y"}},
			{
				files:   []File{file("1.yaml", docs(rule("a", "x"), "a: [\n")), file("2.yaml", rule("b", "w"))},
				changed: map[string]string{b: "2.yaml:1 w"}, problems: []string{syntax},
			},
		},
		"an object that is deleted goes, though another one of its file is broken": {
			{files: []File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}, changed: map[string]string{a: "1.yaml:1 x", b: "1.yaml:3 y"}},
			{
				files:   []File{file("1.yaml", "# a\n#\n"+rule("b", bad))},
				changed: map[string]string{a: ""}, problems: []string{fault}, lastGood: []string{b + " (1.yaml:3)"},
			},
		},
		"a broken file that is deleted takes its last good objects with it": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1 x"}},
			{files: []File{file("1.yaml", "a: [")}, problems: []string{"1.yaml:1: error: did not find expected node content"}},
			{changed: map[string]string{a: ""}},
		},
		"a file that cannot be read": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1 x"}},
			{files: []File{{Name: "1.yaml", Err: errors.New("permission denied")}}, problems: []string{"1.yaml: error: permission denied"}},
			{files: []File{{Name: "1.yaml", Err: errors.New("permission denied")}}},
			{files: []File{good}},
		},
		"the first file by name keeps an object, whatever the order": {
			{
				files:    []File{file("2.yaml", docs(rule("a", "y"), rule("b", "y"))), good},
				changed:  map[string]string{a: "1.yaml:1 x", b: "2.yaml:3 y"},
				problems: []string{"2.yaml:1: error: DestinationRule default/a: is declared already at 1.yaml:1"},
			},
			{files: []File{file("2.yaml", docs(rule("a", "y"), rule("b", "y")))}, changed: map[string]string{a: "2.yaml:1 y"}},
		},
		"and keeps it when it breaks": {
			{
				files:    []File{good, file("2.yaml", rule("a", "y"))},
				changed:  map[string]string{a: "1.yaml:1 x"},
				problems: []string{"2.yaml:1: error: DestinationRule default/a: is declared already at 1.yaml:1"},
			},
			{
				files:    []File{file("1.yaml", rule("a", bad)), file("2.yaml", rule("a", "y"))},
				problems: []string{strings.NewReplacer(":3", ":1", "default/b", "default/a").Replace(fault)},
				lastGood: []string{a + " (1.yaml:1)"},
			},
		},
		"labels are what an object is as well": {
			{
				files:   []File{file("1.yaml", strings.Replace(rule("a", "x"), "name: a", "name: a, labels: {b: c}", 1))},
				changed: map[string]string{a: "1.yaml:1 x"},
			},
			{
				files:   []File{file("1.yaml", strings.Replace(rule("a", "x"), "name: a", "name: a, labels: {b: d}", 1))},
				changed: map[string]string{a: "1.yaml:1 x"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(0)
			for i, step := range steps {
				out := s.apply(s.lookAt(step.files), start0.Add(time.Duration(i)*time.Minute))
				if len(s.waiting) > 0 { // wait until files are applied of which a part has been removed
					out = s.apply(s.lookAt(step.files), start0.Add(time.Duration(i)*time.Minute+lossWait))
				}
				var problems []string
				for _, p := range out.problems {
					problems = append(problems, p.String())
				}
				if step.changed == nil {
					step.changed = map[string]string{}
				}
				if diff := cmp.Diff(step.changed, shown(out.groups)); diff != "" {
					t.Errorf("step %d changed (-want +got):\n%s", i, diff)
				}
				if diff := cmp.Diff(step.problems, problems); diff != "" {
					t.Errorf("step %d problems (-want +got):\n%s", i, diff)
				}
				now := s.status()
				if diff := cmp.Diff([][]string{step.refused, step.lastGood}, [][]string{now.Refused, now.LastGood}); diff != "" {
					t.Errorf("step %d refused, last good (-want +got):\n%s", i, diff)
				}
				checkCounts(t, s)
			}
		})
	}
}

// checkCounts compares the counts by kind, which are updated with each change, with the objects.
func checkCounts(t *testing.T, s *state) {
	t.Helper()
	want, got, now := map[string]int{}, map[string]int{}, s.status()
	for _, o := range s.objects {
		want[o.Kind]++
	}
	for kind, n := range now.Kinds {
		if sum := n.Served + n.LastGood + n.Held; sum > 0 {
			got[kind] = sum
		}
		if n.Served < 0 || n.Refused > len(now.Refused) {
			t.Errorf("%s: %+v", kind, n)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects by kind (-want +got):\n%s", diff)
	}
}

// shown returns the places of the objects of groups, and their hosts.
func shown(groups map[string]model.Group) map[string]string {
	out := map[string]string{}
	for key, g := range groups {
		out[key] = ""
		if !g.Empty() {
			o := g.Objects[0]
			out[key] = o.Origin.String() + " " + o.Spec.(interface{ GetHost() string }).GetHost()
		}
	}
	return out
}

// A document is decoded once, even if it moves: values that were made from it are found again by its Spec.
func TestPlanSharesWhatDidNotChange(t *testing.T) {
	s := newState(0)
	const a, b = "DestinationRule/default/a", "DestinationRule/default/b"
	s.apply(s.lookAt([]File{file("1.yaml", docs(rule("a", "x"), rule("b", "y")))}), start0)
	specA, specB := s.objects[a].Spec, s.objects[b].Spec
	s.apply(s.lookAt([]File{file("1.yaml", docs("# moved\n"+rule("a", "z"), rule("b", "y")))}), start0)
	if s.objects[b].Spec != specB || s.objects[b].Origin.Line != 4 {
		t.Errorf("b is %+v, want its old spec at line 4", s.objects[b])
	}
	if s.objects[a].Spec == specA {
		t.Error("a has its old spec")
	}
	s.apply(s.lookAt([]File{file("2.yaml", docs(rule("b", " y")))}), start0)
	if s.objects[b].Spec != specB {
		t.Error("in another file, with another space, b has another spec")
	}
}

// TestFinished: a file that holds less than before may have been truncated by a process that is still writing it.
func TestFinished(t *testing.T) {
	many := docs(rule("a", "x"), rule("b", "y"), rule("c", "z"))
	cut := docs(rule("a", "w"), rule("b", "y"))
	stat := func(size int64, age time.Duration, writing bool) Stat {
		return Stat{Size: size, Modified: start0.Add(-age), Writing: writing}
	}
	for name, test := range map[string]struct {
		text       string
		stat       Stat
		unfinished bool
		objects    int           // at once
		until      time.Duration // the file is applied, 0 for at once
	}{
		"it grows":                      {many + "---\n" + rule("d", "x"), stat(9, 0, false), false, 4, 0},
		"it is edited":                  {strings.ReplaceAll(many, "host: x", "host: w"), stat(9, 0, false), false, 3, 0},
		"it is emptied":                 {"", stat(0, 0, false), false, 3, lossWait},
		"it is cut between objects":     {cut, stat(9, 0, false), false, 3, lossWait},
		"a moment ago":                  {cut, stat(9, lossWait/4, false), false, 3, lossWait * 3 / 4},
		"long ago":                      {cut, stat(9, time.Hour, false), false, 2, 0},
		"the clock of its disk is fast": {cut, stat(9, -time.Hour, false), false, 3, lossWait},
		"it is being written":           {"", stat(9, 0, true), true, 3, writeWait},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(0)
			s.apply(s.lookAt([]File{file("1.yaml", many)}), start0.Add(-time.Hour))
			f := File{Name: "1.yaml", Data: []byte(test.text), Stat: test.stat, Unfinished: test.unfinished}
			out := s.apply(s.lookAt([]File{f}), start0)
			if len(s.objects) != test.objects {
				t.Errorf("%d objects are served, want %d", len(s.objects), test.objects)
			}
			if test.until == 0 {
				if !out.wakeAt.IsZero() {
					t.Errorf("it is to be looked at again at %v", out.wakeAt)
				}
				return
			}
			if out.wakeAt.IsZero() || out.wakeAt.After(start0.Add(test.until)) {
				t.Errorf("it is to be looked at again at %v, want %v after the first time at the latest", out.wakeAt, test.until)
			}
			if len(s.status().Waiting) != 1 {
				t.Errorf("waiting is %v, want the file", s.status().Waiting)
			}
			early := start0.Add(test.until - 1)
			s.apply(s.lookAt([]File{f}), early)
			if f.Unfinished && !s.skipsRead(f.Name, f.Stat, early) {
				t.Error("it is read though it is being written")
			}
			if len(s.objects) != 3 {
				t.Errorf("%d objects are served before it is finished, want 3", len(s.objects))
			}
			if f.Unfinished {
				if s.skipsRead(f.Name, f.Stat, early.Add(1)) {
					t.Fatal("it is not read though time is up")
				}
				f.Unfinished = false
			}
			s.apply(s.lookAt([]File{f}), early.Add(1))
			if len(s.objects) == 3 || len(s.waiting) > 0 {
				t.Errorf("%d objects are served when it is finished, %d files wait", len(s.objects), len(s.waiting))
			}
		})
	}
}

// A further write starts the waiting time again; until its end the file's last form is served.
func TestFinishedBeginsAnew(t *testing.T) {
	s := newState(0)
	s.apply(s.lookAt([]File{file("1.yaml", docs(rule("a", "x"), rule("b", "y"), rule("c", "z")))}), start0)
	for i := range 10 {
		now := start0.Add(time.Duration(i+1) * lossWait * 3 / 4)
		f := file("1.yaml", rule("a", fmt.Sprint("x", i)))
		f.Stat = Stat{Size: int64(i), Modified: now}
		if out := s.apply(s.lookAt([]File{f}), now); len(out.groups) > 0 {
			t.Fatalf("after write %d: %v", i, shown(out.groups))
		}
	}
	if out := s.apply(s.lookAt(nil), start0.Add(time.Hour)); len(out.groups) != 3 || len(s.waiting) > 0 {
		t.Errorf("deleted: %v, waiting %v", shown(out.groups), s.waiting)
	}
}
