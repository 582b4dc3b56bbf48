package bootstrap

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pilotlight/pilotlight/node"
)

// FuzzRender puts any string into every field that may have any: the documents stay valid, and carry the same value.
func FuzzRender(f *testing.F) {
	f.Add("reviews", uint64(0))
	f.Add(`"}, "admin": {`, uint64(1<<40))
	f.Add("{{.Node}}\u2028\x00\\ufffd\ufffd</script>\t", uint64(1<<63))
	f.Add("é\n\\", uint64(1))
	f.Add("\xff", uint64(1))
	f.Fuzz(func(t *testing.T, text string, limit uint64) {
		p := sidecar()
		p.Node.Role = node.Router // whose address may be any text
		p.Discovery.TLS, p.MemoryLimit = mutualTLS(), limit
		p.PrometheusPort, p.ReadinessPort, p.AdminPort, p.StatusPort = 15090, 15021, 15000, 15020
		p.Runtime = map[string]any{}
		for _, service := range []*Address{&p.Zipkin, &p.MetricsService, &p.AccessLogService} {
			service.Port = 9411
		}
		want := fillText(reflect.ValueOf(&p).Elem(), text, "")
		rendered, err := Render(p)
		if relay := p.Discovery.Socket; err == nil { // in which there is nothing of the address that it stands for
			var direct []byte
			p.Discovery.Socket = ""
			if direct, err = Render(p); err == nil {
				rendered = fmt.Appendf(nil, "[%s, %s]", rendered, direct)
			}
			p.Discovery.Socket = relay
		}
		if strings.Contains(text, "~") {
			if err == nil || !strings.Contains(err.Error(), "must not contain ~") {
				t.Errorf("~ in a node ID: got error %v", err)
			}
			return
		}
		if !utf8.ValidString(text) {
			if err == nil || !strings.Contains(err.Error(), "want UTF-8") {
				t.Errorf("no UTF-8: got error %v", err)
			}
			return
		}
		if err != nil {
			t.Fatalf("Render: %v", err)
		}
		var document any
		if err := json.Unmarshal(rendered, &document); err != nil {
			t.Fatalf("parse %s: %v", rendered, err)
		}
		found := texts(document)
		for field, value := range want {
			same := func(s string) bool { return s == value }
			if strings.HasPrefix(field, ".Node.") || field == ".Zipkin.Host" { // joined with others
				same = func(s string) bool { return strings.Contains(s, value) }
			}
			if !slices.ContainsFunc(found, same) {
				t.Errorf("%s: %q is nowhere in the document", field, value)
			}
		}
	})
}

// bound are the fields that may not have any text, those of the tracer that is not Zipkin, and those that only a user's own
// template names.
var bound = []string{
	".Discovery.TLS.Chain", ".Discovery.TLS.Key", ".Discovery.TLS.Roots",
	".Node.Role", ".Discovery.Variant", ".Statsd.Host", ".OpenTelemetry.Host", ".Metadata.InterceptionMode",
}

// fillText sets every text below v to one that ends in its own path, and returns them by path.
func fillText(v reflect.Value, text, at string) map[string]string {
	out := map[string]string{}
	add := func(more map[string]string) {
		for field, value := range more {
			out[field] = value
		}
	}
	if slices.Contains(bound, at) {
		return nil
	}
	value := text + at
	switch v.Kind() {
	case reflect.String:
		v.SetString(value)
		out[at] = value
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Type().Field(i).Anonymous {
				name = "Embedded"
			}
			add(fillText(v.Field(i), text, at+"."+name))
		}
	case reflect.Pointer:
		add(fillText(v.Elem(), text, at))
	case reflect.Slice:
		if at == ".Metadata.InstanceIPs" { // joined by commas
			return nil
		}
		v.Set(reflect.ValueOf([]string{value}))
		out[at] = value
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(value+"key"), reflect.ValueOf(value))
		out[at], out[at+"key"] = value, value+"key"
	}
	return out
}

// texts lists every string in a JSON value, keys included.
func texts(value any) (out []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			out = append(out, texts(item)...)
		}
	case map[string]any:
		for key, item := range v {
			out = append(append(out, key), texts(item)...)
		}
	}
	return out
}

// FuzzRenderTemplate has a user's template, which knows nothing of JSON's quoting.
func FuzzRenderTemplate(f *testing.F) {
	f.Add("reviews")
	f.Add(`"`)
	f.Fuzz(func(t *testing.T, text string) {
		p := sidecar()
		p.Cluster, p.Stats.InclusionPrefixes, p.Metadata.Extra = text, []string{text}, map[string]any{text: text}
		rendered, err := RenderTemplate(`{
			"a": {{.Cluster}},
			"b": [{{range $i, $p := .Stats.InclusionPrefixes}}{{if $i}},{{end}}{{$p}}{{end}}],
			"c": {{with .Cluster}}{{.}}{{else}}null{{end}}, "d": {{printf "<%s>" .Cluster}}, "e": {{template "metadata" .}} }
			{{- define "metadata"}}{{.Metadata.Map | json}}{{end}}`, p)
		if !utf8.ValidString(text) {
			if err == nil {
				t.Error("no UTF-8: got no error")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			A, D string
			B    []string
			C    *string
			E    map[string]any
		}
		if err := json.Unmarshal(rendered, &got); err != nil {
			t.Fatal(err)
		}
		c := ""
		if got.C != nil {
			c = *got.C
		}
		if got.A != text || got.B[0] != text || c != text || got.D != fmt.Sprintf("<%s>", text) {
			t.Errorf("got %+v, want %q everywhere", got, text)
		}
		switch text {
		case "NAMESPACE", "LABELS", "INSTANCE_IPS", "INTERCEPTION_MODE", "HTTP_PROXY_PORT": // the metadata's own
		default:
			if got.E[text] != text {
				t.Errorf("got metadata %q, want %q under %q", got.E, text, text)
			}
		}
	})
}
