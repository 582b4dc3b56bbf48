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

// riddle finds a sentence of a comment whose subject is a question word.
var riddle = regexp.MustCompile(`(?:^|[.:;] )((?:Who|Whoever|Whom|Whose|Whatever)\b[^.]*)`)

// riddles returns a line for each sentence of a file's comments whose subject is a question word.
func riddles(path string, source any) (faults []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	for _, comment := range file.Comments {
		text := strings.Join(strings.Fields(comment.Text()), " ")
		for _, m := range riddle.FindAllStringSubmatch(text, -1) {
			faults = append(faults, fmt.Sprintf("%s: %q: name the subject of the sentence", set.Position(comment.Pos()), m[1]))
		}
	}
	return faults
}

// A sentence says which thing does something: "a proxy that leaves", not "who leaves".
func TestCommentsNameTheirSubject(t *testing.T) {
	for _, path := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, fault := range riddles(path, nil) {
			t.Error(fault)
		}
	}
	for comment, want := range map[string]int{
		"Whoever asks gets it.":                                  1,
		"It is sent. Who leaves gets nothing.":                   1,
		"It is sent:\n// whatever a client has, it gets it.":     0,
		"A proxy whose stream ends is removed.":                  0,
		"It bounds the cost. Whatever\n// is larger is refused.": 1,
	} {
		if got := riddles("x.go", "package x\n\n// "+comment+"\nfunc f() {}\n"); len(got) != want {
			t.Errorf("%q: %q, want %d faults", comment, got, want)
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
