//go:build wire

package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// policyCase is a case of the tables that test Istio's translation of AuthorizationPolicy.
type policyCase struct {
	name    string // NAME of the table's file, "http/allow-path"
	tcp     bool
	mesh    map[string]any // MeshConfig as JSON
	input   []byte         // objects as YAML
	wanted  []*anypb.Any   // Istio's filters, in their order
	repeats int            // further cases with the same input, and the same filters

	keys     []*model.Object // key sets that discovery has fetched
	repaired bool            // wanted is not as in the table: see quoted
}

// policyTables reads Istio's tables from the source of their test, and from its files.
func policyTables(t *testing.T, dir string) (out []policyCase) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "builder_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]ast.Expr{}
	ast.Inspect(source, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			for i, value := range v.Values {
				variables[v.Names[i].Name] = value
			}
		}
		return true
	})
	for _, table := range []struct {
		test, folder string
		tcp          bool
		forms        []string // prefixes of the files that are wanted
	}{
		{"TestGenerator_GenerateHTTP", "http", false, []string{"", "extended-"}},
		{"TestGenerator_GenerateTCP", "tcp", true, []string{""}},
	} {
		for _, row := range rowsOf(source, table.test, "testCases") {
			c := readCase(t, row, variables, filepath.Join(dir, "testdata", table.folder), table.forms)
			c.name, c.tcp = table.folder+"/"+c.name, table.tcp
			out = append(out, c)
		}
	}
	return out
}

// rowsOf returns the elements of a list in a function: NAME := []struct{…}{…}.
func rowsOf(source *ast.File, function, name string) (rows []*ast.CompositeLit) {
	for _, d := range source.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != function {
			continue
		}
		for _, statement := range f.Body.List {
			a, ok := statement.(*ast.AssignStmt)
			if !ok {
				continue
			}
			if to, ok := a.Lhs[0].(*ast.Ident); !ok || to.Name != name {
				continue
			}
			for _, e := range a.Rhs[0].(*ast.CompositeLit).Elts {
				rows = append(rows, e.(*ast.CompositeLit))
			}
		}
	}
	return rows
}

func readCase(t *testing.T, row *ast.CompositeLit, variables map[string]ast.Expr, dir string, forms []string) policyCase {
	t.Helper()
	c := policyCase{mesh: map[string]any{}}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, e := range row.Elts {
		field := e.(*ast.KeyValueExpr)
		switch name := field.Key.(*ast.Ident).Name; name {
		case "name":
			c.name = literal(field.Value).(string)
		case "input":
			c.input = read(literal(field.Value).(string))
		case "meshConfig":
			maps.Copy(c.mesh, literal(variables[field.Value.(*ast.Ident).Name]).(map[string]any))
		case "tdBundle": // trustdomain.NewBundle(DOMAIN, ALIASES)
			args := field.Value.(*ast.CallExpr).Args
			c.mesh["trustDomain"], c.mesh["trustDomainAliases"] = literal(args[0]), literal(args[1])
		case "want":
			for _, file := range literal(field.Value).([]any) {
				data := read(forms[0] + file.(string))
				c.wanted = append(c.wanted, readFilter(t, data, filepath.Base(dir) == "tcp"))
				for _, form := range forms[1:] {
					if !bytes.Equal(data, read(form+file.(string))) {
						t.Errorf("%s%s is another one than %s: this test does not know it", form, file, file)
					}
				}
			}
		default:
			t.Fatalf("%s: a case of %s has this field, which this test does not know", name, dir)
		}
	}
	c.repeats = len(forms) - 1
	return c
}

// readFilter reads one of Istio's filters of Envoy.
func readFilter(t *testing.T, text []byte, tcp bool) *anypb.Any {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var filter interface {
		proto.Message
		GetTypedConfig() *anypb.Any
	} = &hcmv3.HttpFilter{}
	if tcp {
		filter = &listenerv3.Filter{}
	}
	if err := protojson.Unmarshal(data, filter); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return filter.GetTypedConfig()
}

// literal returns the value of an expression of Go, with messages of proto as JSON has them. Of a name or a call that it does not know
// it returns the name.
func literal(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.UnaryExpr: // &
		return literal(e.X)
	case *ast.BinaryExpr: // a product
		x, isNumber := literal(e.X).(int)
		if !isNumber {
			return literal(e.X)
		}
		return x * literal(e.Y).(int)
	case *ast.Ident:
		switch e.Name {
		case "true", "false":
			return e.Name == "true"
		case "nil":
			return nil
		}
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
		n, _ := strconv.Atoi(e.Value)
		return n
	case *ast.CallExpr:
		return called(literal(e.Fun).(string), literal(e.Args[0]))
	}
	return composite(e.(*ast.CompositeLit))
}

// called knows the functions that Istio's tables call for a part of a message.
func called(name string, argument any) any {
	if name != "buildSpaceDelimitedClaims" {
		return argument
	}
	more, _ := argument.([]any)
	return append([]any{"permission", "scope"}, more...)
}

func composite(c *ast.CompositeLit) any {
	list, object := []any{}, map[string]any{}
	for _, element := range c.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			list = append(list, literal(element))
			continue
		}
		value := literal(pair.Value)
		switch key := pair.Key.(type) {
		case *ast.BasicLit: // of a map
			object[fmt.Sprint(literal(key))] = value
		case *ast.Ident:
			if isChoice(pair.Value) { // which JSON does not have: its one field stands there
				maps.Copy(object, value.(map[string]any))
				continue
			}
			object[strings.ToLower(key.Name[:1])+key.Name[1:]] = value
		}
	}
	if of, ok := c.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Duration" {
		seconds, _ := object["seconds"].(int)
		nanoseconds, _ := object["nanos"].(int)
		d := time.Duration(seconds)*time.Second + time.Duration(nanoseconds)
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	if _, isList := c.Type.(*ast.ArrayType); isList || len(list) > 0 {
		return list
	}
	return object
}

// isChoice reports whether a value is &MESSAGE_FIELD{FIELD: …}: the field that a oneof of proto has.
func isChoice(e ast.Expr) bool {
	pointer, ok := e.(*ast.UnaryExpr)
	if !ok {
		return false
	}
	c, ok := pointer.X.(*ast.CompositeLit)
	if !ok || len(c.Elts) != 1 {
		return false
	}
	of, ok := c.Type.(*ast.SelectorExpr)
	field, named := c.Elts[0].(*ast.KeyValueExpr)
	return ok && named && strings.HasSuffix(of.Sel.Name, "_"+literal(field.Key).(string))
}
