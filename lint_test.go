package pilotlight_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logFunctions are the methods whose arguments after the message are keys and values.
var logFunctions = []string{"Debug", "Info", "Warn", "Error", "Log", "log", "With"}

// inCalls returns what judge finds in the calls of methods in a file.
func inCalls(path string, source any, judge func(set *token.FileSet, method string, call *ast.CallExpr) []string) (faults []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok {
				faults = append(faults, judge(set, method.Sel.Name, call)...)
			}
		}
		return true
	})
	return faults
}

// errorKeys returns a line for each key of a log line that holds an error under another name than err.
func errorKeys(path string, source any) []string {
	return inCalls(path, source, func(set *token.FileSet, method string, call *ast.CallExpr) (faults []string) {
		if !slices.Contains(logFunctions, method) {
			return nil
		}
		for i := range max(0, len(call.Args)-1) {
			literal, ok := call.Args[i].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			key, _ := strconv.Unquote(literal.Value)
			if isError := holdsError(call.Args[i+1]); key == "error" || isError && key != "err" && !strings.Contains(key, " ") {
				faults = append(faults, fmt.Sprintf("%s: key %q of a log line, want err for an error", set.Position(literal.Pos()), key))
			}
		}
		return faults
	})
}

// holdsError reports whether an expression is an error by its name: err, x.err, failed.Err, err.Error().
func holdsError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "err"
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "err")
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Error" && len(e.Args) == 0
	default:
		return false
	}
}

// An error has one key in every log line, so that one question finds all of them.
func TestErrorsHaveOneKey(t *testing.T) {
	for _, path := range goFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			for _, fault := range errorKeys(path, nil) {
				t.Error(fault)
			}
		}
	}
	for line, want := range map[string]int{
		`log.Warn("it failed", "err", err)`:                          0,
		`log.Warn("it failed", "error", err)`:                        1,
		`s.log.Warn("it failed", "node", n, "cause", err)`:           1,
		`log.Log(ctx, level, "it failed", "reason", err.Error())`:    1,
		`log.With("error", text)`:                                    1,
		`s.log(slog.LevelWarn, "it failed", "fault", in.err)`:        1,
		`log.Info("it left", "cause", cause)`:                        0,
		`attribute.String("error", text)`:                            0,
		`log.Warn("it failed", append(args, "err", err.Error())...)`: 0,
	} {
		if got := errorKeys("x.go", "package x\nfunc f() { "+line+" }"); len(got) != want {
			t.Errorf("%s: %q, want %d faults", line, got, want)
		}
	}
}

// goFiles are the paths of all Go files.
func goFiles(t *testing.T) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(made, name):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			out = append(out, name)
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d Go files, %v", len(out), err)
	}
	return out
}

// riddle finds a sentence or a part of one whose subject or object is a question word: "Who leaves gets nothing", "with who
// gets it", "kill whoever serves".
var riddle = regexp.MustCompile(`(?:^|[.:;] )(?:Who|Whom|Whose|Whatever)\b[^.]*|[.:;] whom?\b[^.]*|\b[Ww]hom?ever\b[^.]*|` +
	`\b(?:and|by|for|from|know|knows|not|of|or|return|returns|say|says|to|with) whom?\b[^.]*`)

// told finds what a sentence says is told. Persons and programs are told something; a fault is logged, named or sent.
var told = regexp.MustCompile(`\b(?:is|are|was|were) told\b( apart| by| every| of| that| the| a| to| what)?[^.]*`)

// riddles returns a line for each riddle of a text.
func riddles(text string) (faults []string) {
	for _, found := range riddle.FindAllString(text, -1) {
		faults = append(faults, fmt.Sprintf("%q: name the subject and the object", strings.TrimLeft(found, ".:; ")))
	}
	for _, found := range told.FindAllStringSubmatch(text, -1) {
		if found[1] == "" {
			faults = append(faults, fmt.Sprintf("%q: say what is done: logged, named, sent", found[0]))
		}
	}
	return faults
}

// texts are the comments and the texts of a file, with their places.
func texts(path string, source any, each func(at token.Position, text string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, comment := range file.Comments {
		each(set.Position(comment.Pos()), strings.Join(strings.Fields(comment.Text()), " "))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			each(set.Position(literal.Pos()), text)
		}
		return true
	})
	return nil
}

// A sentence says which thing does something: "a proxy that leaves", not "who leaves".
func TestSentencesNameTheirSubject(t *testing.T) {
	for _, path := range goFiles(t) {
		if path == "lint_test.go" {
			continue // the examples below
		}
		err := texts(path, nil, func(at token.Position, text string) {
			for _, fault := range riddles(text) {
				t.Errorf("%s: %s", at, fault)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	for source, want := range map[string]int{
		"// Whoever asks gets it.":                                      1,
		"// It is sent. Who leaves gets nothing.":                       1,
		"// It is sent:\n// whatever a client has, it gets it.":         0,
		"// A proxy whose stream ends is removed.":                      0,
		"// A person who debugs the agent.":                             0,
		"// It bounds the cost. Whatever\n// is larger is refused.":     1,
		"// Each is named, with who does not get it.":                   1,
		"// The log says who leads.":                                    1,
		"// A client without one is refused; who\n// has one is not.":   1,
		"// A fault is told once.":                                      1,
		"// An Envoy is told to drain, and two of them are told apart.": 0,
		"var x = `kill whoever serves`":                                 1,
		"var x = \"nothing is told\"":                                   1,
		"var x = \"who calls them\" // goes on":                         0,
	} {
		var found []string
		err := texts("x.go", "package x\n\n"+source+"\n", func(_ token.Position, text string) { found = append(found, riddles(text)...) })
		if err != nil || len(found) != want {
			t.Errorf("%q: %q, %v, want %d faults", source, found, err, want)
		}
	}
}

// orders are verbs with which a log line would name an attempt, as an order does. Words that are nouns as well are left
// out: "push failed" is no order.
var orders = strings.Fields(`add ask clear close connect create decode delete drain end fetch find give go handle keep kill leave load
	look make mount notify parse put read reap remove repair replace restart retry run save serve set stand start stop sweep take tell tie
	try unlink use wait write`)

// messageAt is the argument of a log function that is its message.
var messageAt = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2,
}

// orderLines returns a line for each message of a log line that begins with such a verb.
func orderLines(path string, source any) []string {
	return inCalls(path, source, func(set *token.FileSet, method string, call *ast.CallExpr) (faults []string) {
		at, logs := messageAt[method]
		if !logs || at >= len(call.Args) {
			return nil
		}
		text := call.Args[at]
		if sum, ok := text.(*ast.BinaryExpr); ok {
			text = sum.X
		}
		literal, ok := text.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return nil
		}
		message, _ := strconv.Unquote(literal.Value)
		if first, _, more := strings.Cut(message, " "); slices.Contains(orders, first) && (more || len(call.Args) > at+1) {
			faults = append(faults, fmt.Sprintf("%s: %q names the attempt: say what happened, such as \"listener not drained\"",
				set.Position(literal.Pos()), message))
		}
		return faults
	})
}

// A log line says what happened, or what did not: not what was tried.
func TestLogLinesSayWhatHappened(t *testing.T) {
	for _, path := range goFiles(t) {
		for _, fault := range orderLines(path, nil) {
			t.Error(fault)
		}
	}
	for line, want := range map[string]int{
		`log.Warn("drain listeners", "err", err)`:         1,
		`log.Warn("serve", "err", err)`:                   1,
		`s.log.Log(ctx, level, "read the file", "k", v)`:  1,
		`log.WarnContext(ctx, "write " + name, "k", v)`:   1,
		`log.Warn("listeners not drained", "err", err)`:   0,
		`log.Info("push failed")`:                         0,
		`t.Error("a service")`:                            0,
		`log.Info(message, "read", n)`:                    0,
		`status.Error(codes.Unavailable, "reading ends")`: 0,
	} {
		if got := orderLines("x.go", "package x\n\nfunc f() { "+line+" }\n"); len(got) != want {
			t.Errorf("%s: %q, want %d faults", line, got, want)
		}
	}
}
