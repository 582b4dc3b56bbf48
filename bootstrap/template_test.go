package bootstrap

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/templates"
)

func TestRenderTemplateRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"broken template", "{\n{{if}}", "parse bootstrap template: template: bootstrap:2: missing value"},
		{"unknown key", "{\n\n\"a\": {{.Clutser}}}", "bootstrap:3:7"},
		{"unknown part", `{"a": {{template "nodes" .}}}`, `template "nodes" not defined`},
		{"quotes around a value", "{\n  \"a\": \"{{.Cluster}}\"\n}", `line 2: "a": ""reviews"": invalid character 'r'`},
		{"a comma too many", `{"a": 1,}`, `want a JSON object: line 1: {"a": 1,}: invalid character '}'`},
		{"no object", `[{{.Cluster}}]`, "want a JSON object"},
		{"nothing", "", "want a JSON object"},
		{"null", "null", "want a JSON object: is null"},
		{"YAML", "node:\n  id: a\n", "want a JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := RenderTemplate(test.text, sidecar())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/bootstrap.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A start without further settings does not wait until the optional parts are parsed.
func TestNoOptionalPartIsNeeded(t *testing.T) {
	p := sidecar()
	p.SecretsSocket = secretsSocket
	for name, text := range map[string]string{"sidecar": templates.Sidecar, "gateway": templates.Gateway} {
		if _, err := executeWith(templates.Parts, text, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDocumentedKeys holds that the documentation names every key and every part, and none that is not there.
func TestDocumentedKeys(t *testing.T) {
	text := documentation(t)
	for _, key := range keys(reflect.TypeFor[Params](), "") {
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("docs/bootstrap.md does not name %s", key)
		}
	}
	defined := map[string]bool{}
	for _, match := range regexp.MustCompile(`{{define "(.*)"`).FindAllStringSubmatch(templates.Parts+templates.Optional, -1) {
		defined[match[1]] = true
	}
	_, parts, _ := strings.Cut(text, "\nParts, ")
	parts, _, _ = strings.Cut(parts, "\n\n")
	named := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(parts, -1)
	if len(named) < 5 {
		t.Fatalf("found no parts in %q", parts)
	}
	for _, match := range named {
		if !defined[match[1]] {
			t.Errorf("docs/bootstrap.md names a part %s, and there is none", match[1])
		}
	}
	p := sidecar()
	p.Discovery.TLS, p.SecretsSocket = mutualTLS(), secretsSocket
	for _, key := range regexp.MustCompile("(?m)`(\\.[A-Z][A-Za-z.]+)`").FindAllStringSubmatch(text, -1) {
		_, err := RenderTemplate(`{"a": {{`+key[1]+`}}}`, p)
		below := strings.Contains(text, "with `"+key[1]+"`") || strings.Contains(text, ", `"+key[1]+"`") // of a list's items
		if err != nil && !below {
			t.Errorf("docs/bootstrap.md names %s: %v", key[1], err)
		}
	}
}

// keys lists what a template can say of a type, fields and methods, down to the messages that are ours.
func keys(of reflect.Type, at string) (out []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case field.Anonymous:
			out = append(out, at+".Host", at+".Port", at+".IsIP")
		case at == "" && field.Name == "Node": // of another package, and not all of it is of use
			out = append(out, ".Node.String", ".Node.Role", ".Node.IP", ".Node.Name", ".Node.Domain")
		case at == "" && field.Name == "Metadata":
			out = append(out, ".Metadata.Map")
		case kind.Kind() == reflect.Struct && kind != reflect.TypeFor[Address]():
			out = append(out, keys(kind, at+"."+field.Name)...)
		default:
			out = append(out, at+"."+field.Name)
		}
	}
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; name != "Validate" && at != ".Discovery" {
			out = append(out, at+"."+name)
		}
	}
	return out
}

// TestDocumentedTemplate renders the documentation's template, merges its override, and asks Envoy.
func TestDocumentedTemplate(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```(?:json)?\n(.*?)```").FindAllStringSubmatch(documentation(t), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/bootstrap.md has %d blocks, want a template and an override", len(blocks))
	}
	p := sidecar()
	p.Zipkin = Address{"zipkin", 9411}
	rendered, err := RenderTemplate(blocks[0][1], p)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(rendered, []byte(blocks[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Warnings(merged); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"name": "reviews-cache"`, `"name": "envoy.bootstrap.internal_listener"`, `"connect_timeout": "1s"`} {
		if !strings.Contains(string(merged), want) {
			t.Errorf("no %s in %s", want, merged)
		}
	}
}

// A template has the value of every method of the parameters that takes nothing and returns one value.
func TestTemplatesHaveTheMethodsOfParameters(t *testing.T) {
	var look func(value reflect.Value, seen map[reflect.Type]bool)
	look = func(value reflect.Value, seen map[reflect.Type]bool) {
		of := value.Type()
		if seen[of] || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			return
		}
		seen[of] = true
		for i := range of.NumMethod() {
			method := of.Method(i)
			if method.Type.NumIn() != 1 || method.Type.NumOut() != 1 || method.Name == "Validate" || of.PkgPath() == "time" && method.Name != "String" {
				continue
			}
			if _, found := computed(value.Interface(), method.Name); !found {
				t.Errorf("a template does not have %s of %s", method.Name, of)
			}
		}
		if of.Kind() == reflect.Struct {
			for i := range of.NumField() {
				if of.Field(i).IsExported() {
					look(value.Field(i), seen)
				}
			}
		}
	}
	look(reflect.ValueOf(Params{Discovery: Discovery{TLS: &TLS{}}}), map[reflect.Type]bool{})
}
