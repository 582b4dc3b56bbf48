//go:build wire

package wire

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// analysis is a case of the test of Istio's analyzers: the files that it reads, and the messages that it wants.
type analysis struct {
	name                 string
	files                []string
	meshConfig, networks string
	want                 []finding
}

// finding is a message about an object, "Gateway default/alpha".
type finding struct{ message, object string }

// analyses reads the cases from the source of Istio's test, which nobody has to run for that.
func analyses(t *testing.T, dir string) (out []analysis) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "analyzers_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(e ast.Expr) string {
		literal, ok := e.(*ast.BasicLit)
		if !ok {
			return ""
		}
		s, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ast.Inspect(source, func(n ast.Node) bool {
		grid, ok := n.(*ast.ValueSpec)
		if !ok || grid.Names[0].Name != "testGrid" {
			return true
		}
		for _, row := range grid.Values[0].(*ast.CompositeLit).Elts {
			var a analysis
			skip := false
			for _, field := range row.(*ast.CompositeLit).Elts {
				pair := field.(*ast.KeyValueExpr)
				switch pair.Key.(*ast.Ident).Name {
				case "name":
					a.name = text(pair.Value)
				case "inputFiles":
					for _, e := range pair.Value.(*ast.CompositeLit).Elts {
						a.files = append(a.files, filepath.Join(dir, text(e)))
					}
				case "meshConfigFile":
					a.meshConfig = filepath.Join(dir, text(pair.Value))
				case "meshNetworksFile":
					a.networks = filepath.Join(dir, text(pair.Value))
				case "skipAll": // of annotations that are alpha, which its author does not run with all analyzers either
					skip = true
				case "expected":
					for _, e := range pair.Value.(*ast.CompositeLit).Elts {
						message := e.(*ast.CompositeLit).Elts
						a.want = append(a.want, finding{message[0].(*ast.SelectorExpr).Sel.Name, object(text(message[1]))})
					}
				}
			}
			if !skip {
				out = append(out, a)
			}
		}
		return false
	})
	return out
}

// object completes a name without a namespace.
func object(name string) string {
	kind, rest, _ := strings.Cut(name, " ")
	if kind == "MeshNetworks" {
		return kind // of a file, which has no name
	}
	if !strings.Contains(rest, "/") && kind != "Namespace" && !strings.HasSuffix(kind, "WebhookConfiguration") {
		rest = "default/" + rest
	}
	return kind + " " + rest
}

// validated returns what discovery validate says of files.
func validated(t *testing.T, args ...string) []config.Problem {
	t.Helper()
	out, err := exec.Command(lab.Program("discovery"), append([]string{"validate", "-o", "json"}, args...)...).Output()
	var said struct{ Problems []config.Problem }
	if json.Unmarshal(out, &said) != nil {
		t.Fatalf("validate %s: %v", args, err)
	}
	for i, p := range said.Problems {
		if strings.Count(p.Object, "/") == 2 { // a fault of a Service as served
			said.Problems[i].Object = strings.Replace(p.Object, "/", " ", 1)
		}
	}
	return said.Problems
}

// expectations are what analyzers.txt says of Istio's messages: those that do not concern us, the words by which ours are
// found, and those that are missed on purpose.
type expectations struct {
	other map[string]string         // message → why
	words map[string]*regexp.Regexp // message → of our text
	meant map[finding]string        // → why

	refused map[finding]string // of objects that are no valid ones: Istio's validation refuses them as discovery's does
}

func expected(t *testing.T) expectations {
	t.Helper()
	e := expectations{map[string]string{}, map[string]*regexp.Regexp{}, map[finding]string{}, map[finding]string{}}
	f, err := os.Open("analyzers.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		message, rest, _ := strings.Cut(rest, " ")
		switch subject, reason, ok := strings.Cut(rest, ": "); {
		case verb == "other" && rest != "":
			e.other[message] = rest
		case verb == "says":
			e.words[message] = regexp.MustCompile(rest)
		case verb == "miss" && ok:
			e.meant[finding{message, subject}] = reason
		case verb == "refused" && ok:
			e.refused[finding{message, subject}] = reason
		default:
			t.Fatalf("analyzers.txt: %q: want other MESSAGE REASON, says MESSAGE REGEXP, or miss or refused MESSAGE KIND NAMESPACE/NAME: REASON", line)
		}
	}
	return e
}

// reported tells whether a problem has the words of a message, and is of its object or names that as the other side of a conflict.
func (e expectations) reported(w finding, problems []config.Problem) bool {
	return slices.ContainsFunc(problems, func(p config.Problem) bool {
		return e.words[w.message] != nil && e.words[w.message].MatchString(p.Path+": "+p.Message) &&
			(p.Object == w.object || strings.Contains(p.Message+" ", w.object+" ") || strings.Contains(p.Message, w.object+","))
	})
}

// Of the messages that Istio's analyzers have for their own test data, discovery has at least 80 of 100, of the same
// objects: validate, and inject for what is said of a Pod at its creation. Those that it does not have are listed with
// reasons.
func TestIstioAnalyzers(t *testing.T) {
	dir := filepath.Join(lab.IstioModule(t), "pkg", "config", "analysis", "analyzers")
	e := expected(t)
	found, missed, refused, other := map[finding]bool{}, map[finding]bool{}, map[finding]bool{}, map[finding]bool{}
	for _, a := range analyses(t, dir) {
		args := slices.Clone(a.files)
		if a.meshConfig != "" {
			args = append(args, "--meshConfig", a.meshConfig)
		}
		if a.networks != "" {
			args = append(args, "--networksConfig", a.networks)
		}
		problems := validated(t, args...)
		for _, file := range a.files {
			problems = append(problems, injected(t, file)...)
		}
		for _, w := range a.want {
			switch {
			case e.other[w.message] != "" || e.other[strings.Fields(w.object)[0]] != "":
				other[w] = true
			case e.refused[w] != "" && slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Object == w.object && p.Severity == config.Error }):
				refused[w] = true
			case e.reported(w, problems):
				found[w] = true
			default:
				missed[w] = true
				if e.meant[w] == "" {
					var said []string
					for _, p := range problems {
						if p.Object == w.object {
							said = append(said, p.Path+": "+p.Message)
						}
					}
					t.Errorf("%s: nothing of %s is said of %s, but\n\t%s", a.name, w.message, w.object, strings.Join(said, "\n\t"))
				}
			}
		}
	}
	for w := range e.meant {
		if !missed[w] {
			t.Errorf("%s of %s is reported, or is no message any more", w.message, w.object)
		}
	}
	for w := range e.refused {
		if !refused[w] {
			t.Errorf("%s is not refused, or %s is no message any more", w.object, w.message)
		}
	}
	count := len(found) + len(missed)
	t.Logf("%d of %d messages are reported; %d are of objects that are refused, %d of kinds and faults that do not exist here", len(found), count, len(refused), len(other))
	if len(found)*100 < count*80 {
		t.Errorf("%d of %d messages are reported, want 80 of 100", len(found), count)
	}
}

// injected returns what discovery inject says of the Pods of a file, each line of the form "KIND NAMESPACE/NAME: FIELD: REASON".
func injected(t *testing.T, file string) (out []config.Problem) {
	t.Helper()
	var said strings.Builder
	inject := exec.Command(lab.Program("discovery"), "inject", "-f", file)
	inject.Stderr = &said
	if err := inject.Run(); err != nil && inject.ProcessState == nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(said.String()) {
		if object, message, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "discovery: "), ": "); ok {
			out = append(out, config.Problem{File: file, Object: object, Message: message})
		}
	}
	return out
}

// sampled are what is said of Istio's samples, and true.
var sampled = map[string]string{
	"VirtualService default/details: spec.http[1]":                           "the first route has no match",
	"VirtualService default/tcp-echo: spec.gateways[0]":                      "its Gateway is in another file",
	"ServiceEntry default/httpbin-ext-authz-grpc: spec.endpoints[0].address": "loopback addresses go to their own namespace only, as docs/compat.md says",
	"ServiceEntry default/httpbin-ext-authz-http: spec.endpoints[0].address": "the same",
}

// Istio's samples have no fault but these: of the objects that discovery reads it says nothing else. A file that has no
// objects, such as the values of a chart, is none of them.
func TestIstioSamples(t *testing.T) {
	module, files, said := lab.IstioModule(t), 0, map[string]bool{}
	isObject, isTemplate := regexp.MustCompile(`(?m)^kind:`), regexp.MustCompile(`{{`)
	err := filepath.WalkDir(filepath.Join(module, "samples"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !isObject.Match(text) || strings.Contains(path, "-chart/") && isTemplate.Match(text) {
			return err
		}
		files++
		for _, p := range validated(t, path, "--registries", "Kubernetes") {
			switch at := p.Object + ": " + p.Path; {
			case strings.HasSuffix(p.Message, " is not supported, ignored") || strings.Contains(p.Message, "is not served: "): // kinds that are not read
			case sampled[at] != "":
				said[at] = true
			default:
				t.Errorf("%s", strings.TrimPrefix(p.String(), module+"/"))
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files, %v: want Istio's samples", files, err)
	}
	for at := range sampled {
		if !said[at] {
			t.Errorf("%s: nothing is said any more", at)
		}
	}
	t.Logf("%d files", files)
}
