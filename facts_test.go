package pilotlight_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/pilotlight/pilotlight"

// file is one Go file and what it does, as far as the rules speak of it.
type file struct {
	path  string // from the module's root
	test  bool
	doc   string   // its package comment
	facts []string // sorted
}

func (f file) pkg() string { return path.Dir(f.path) }

// in reports whether one of the patterns names the file, by a pattern that ends in .go, or its package.
func (f file) in(patterns string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool {
		if strings.HasSuffix(p, ".go") {
			return p == f.path
		}
		return matches(p, f.pkg())
	})
}

// matches knows two ends of a pattern beside plain equality: "a/..." is a and all below it, "a/*" all below it only.
func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == above || strings.HasPrefix(name, above+"/")
	}
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(strings.TrimSpace(p), name) })
}

// scan reads every Go file of a tree, but testdata and what git does not track.
func scan(tree fs.FS) ([]file, error) {
	set := token.NewFileSet()
	packages := map[string][]*ast.File{} // by folder and package name
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (base[0] == '.' || base == "testdata" || name == "bin" || name == "run"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		key := path.Dir(name) + " " + parsed.Name.Name
		packages[key] = append(packages[key], parsed)
		return nil
	})
	var files []file
	for _, key := range slices.Sorted(maps.Keys(packages)) {
		files = append(files, read(set, packages[key])...)
	}
	return files, err
}

// hollow imports every package as an empty one: enough to know which names are packages and which are variables.
type hollow struct{}

func (hollow) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	return pkg, nil
}

// reader collects the facts of one package's files.
type reader struct {
	info  *types.Info
	scope *types.Scope
	inits int
	facts map[string]bool // of the file at hand
}

// read returns the files of one package with their facts.
func read(set *token.FileSet, parsed []*ast.File) []file {
	r := reader{info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
	config := types.Config{Importer: hollow{}, Error: func(error) {}} // hollow imports cause errors; they do not matter
	pkg, _ := config.Check("", set, parsed, r.info)
	r.scope = pkg.Scope()
	var files []file
	for _, p := range parsed {
		name := set.Position(p.Package).Filename
		r.facts = map[string]bool{}
		r.readDecls(p)
		ast.Inspect(p, r.readNode)
		files = append(files, file{
			path:  name,
			test:  strings.HasSuffix(name, "_test.go"),
			doc:   p.Doc.Text(),
			facts: slices.Sorted(maps.Keys(r.facts)),
		})
	}
	return files
}

func (r *reader) add(format string, args ...any) { r.facts[fmt.Sprintf(format, args...)] = true }

// readDecls reads what stands at the top of a file: imports, init functions, variables that are made to change.
func (r *reader) readDecls(f *ast.File) {
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		r.add("import %s", short(imported))
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == "init" && d.Recv == nil {
				r.inits++
				r.add("%sfunc init", strings.Repeat("another ", min(1, r.inits-1)))
			}
		case *ast.GenDecl:
			r.readVars(d)
		}
	}
}

// readVars finds package variables of a type that exists to be changed.
func (r *reader) readVars(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || d.Tok != token.VAR {
			continue
		}
		if t, ok := v.Type.(*ast.SelectorExpr); ok {
			if p := r.imported(t.X); p == "sync" || p == "sync/atomic" {
				r.add("assign %s", v.Names[0].Name)
			}
		}
	}
}

// readNode reads what code does.
func (r *reader) readNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		r.add("go")
	case *ast.SelectorExpr:
		if p := r.imported(n.X); p != "" {
			r.add("use %s.%s", short(p), n.Sel.Name)
		}
	case *ast.CallExpr:
		r.readCall(n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			r.assigned(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			r.assigned(n.Key, n.Value)
		}
	case *ast.IncDecStmt:
		r.assigned(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND { // any program with the address may write there
			r.assigned(n.X)
		}
	}
	return true
}

func (r *reader) readCall(call *ast.CallExpr) {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, f.Sel.Name) {
			r.add("skip")
		}
	case *ast.Ident:
		if (f.Name == "delete" || f.Name == "clear") && len(call.Args) > 0 {
			r.assigned(call.Args[0])
		}
	}
}

// assigned notes those of the expressions that change a package variable, or what it holds.
func (r *reader) assigned(targets ...ast.Expr) {
	for _, target := range targets {
		for done := false; !done; {
			switch t := target.(type) {
			case *ast.SelectorExpr:
				if p := r.imported(t.X); p != "" {
					r.add("assign %s.%s", short(p), t.Sel.Name)
				}
				target = t.X
			case *ast.IndexExpr:
				target = t.X
			case *ast.StarExpr:
				target = t.X
			case *ast.ParenExpr:
				target = t.X
			case *ast.Ident:
				if v, ok := r.info.Uses[t].(*types.Var); ok && v.Parent() == r.scope {
					r.add("assign %s", t.Name)
				}
				done = true
			default:
				done = true
			}
		}
	}
}

// imported returns the path of the package that e names, "" where it names none.
func (r *reader) imported(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		if p, ok := r.info.Uses[id].(*types.PkgName); ok {
			return p.Imported().Path()
		}
	}
	return ""
}

// short writes a path of ours as "./agent".
func short(imported string) string {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		return "./" + ours
	}
	return imported
}
