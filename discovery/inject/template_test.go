package inject

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// hostile are texts that end a value, begin a key, a list, a document, a comment or an action, where they are not quoted.
var hostile = []string{
	"x", "", "a: b", "\n  privileged: true", "\"\nspec: {hostNetwork: true}\n\"", "'", "\\", "\\\"", "- x", "{a: b}", "[x]", "# x", "---\n", "&a", "*a", "<<", "!!int 1",
	"{{.Image}}", "{{end}}", "| x", "true", "null", "1e3", "0x10", "\u2028", "\u0085", "\x00", "\xff", "\ufeff", "\uffff", "😀", "é", "%", "@", "`", "?", "a\tb", "\r\nb: c", "$(POD_NAME)", "$$",
	strings.Repeat("x", 3000),
}

const probe = `
metadata:
  annotations: {{.Pod.Annotations}}
  labels:
    plain: {{.Image}}
    in: {flow: {{.Image}}, list: "x"}
    made: {{printf "<%s>" .Image}}
{{- range $key, $value := .Pod.Labels}}
    {{$key}}: {{$value}}
{{- end}}
{{- with .Args}}
    first: {{index . 0}} # {{index . 0}}
{{- end}}
{{- define "part"}}{{.}}{{end}}
    named: {{template "part" .Image}}
    list:
    - {{.Image}}
    block: |
      {{.Image}}
`

// meaning returns the expected result of the template above.
func meaning(text string) map[string]any {
	clean := string([]rune(text)) // as JSON has it
	return map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{"a": clean},
		"labels": map[string]any{
			"plain": clean, "in": map[string]any{"flow": clean, "list": "x"}, "made": "<" + clean + ">", "key": clean, "first": clean, "named": clean, "list": []any{clean},
		},
	}}
}

func checkValue(t *testing.T, text string) {
	t.Helper()
	parsed, err := parseTemplate(probe)
	if err != nil {
		t.Fatal(err)
	}
	facts := Facts{Image: text, Args: []string{text}, Pod: PodFacts{Annotations: map[string]string{"a": text}, Labels: map[string]string{"key": text}}}
	var out strings.Builder
	if err := parsed.Execute(&out, facts); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.UnmarshalStrict([]byte(out.String()), &got); err != nil {
		t.Fatalf("%q: %v\n%s", text, err, out.String())
	}
	labels := got["metadata"].(map[string]any)["labels"].(map[string]any)
	block, _ := labels["block"].(string)
	if delete(labels, "block"); strings.Count(block, "\n") != 1 {
		t.Errorf("%q becomes several lines: %q", text, block)
	}
	if want := meaning(text); !reflect.DeepEqual(got, want) {
		t.Errorf("%q becomes\n%v, want\n%v", text, got, want)
	}
}

// A value stays one value at every place of a template.
func TestTemplateValuesStayValues(t *testing.T) {
	for _, text := range hostile {
		checkValue(t, text)
	}
}

func FuzzTemplateValues(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(checkValue)
}

func TestTemplatesThatAreRefused(t *testing.T) {
	c, err := ReadConfig("")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                      "makes no container",
		"{{":                    "parse template",
		"{{.Imag}}":             "run template",
		"{{.Pod.Labels.app}}":   "run template",
		"{{template \"none\"}}": "run template",
		"a: [":                  "no YAML",
		"- x":                   "no object",
		"spec: {}":              "makes no container",
		"spec: {containers: [{name: istio-proxy, imagee: x}]}":     `unknown field "imagee"`,
		"spec: {containers: [{name: a}], containers: [{name: b}]}": "already set",
		"spec: {containers: [{name: trial, image: x}]}":            "the Pod has a container trial of its own",
		"kind: Pod\nspec: {containers: [{name: istio-proxy}]}":     `unknown field "kind"`,
	} {
		_, err := New(c, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
