package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// repeated returns n items of a JSON list; %d in an item is its number.
func repeated(n int, item string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(item, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

// Objects of a tenant that are large and wrong. Each cost seconds, or gigabytes, for its square: what it costs now is in
// proportion to its size, and a hundred of its faults are named.
func TestLargeObjects(t *testing.T) {
	for name, test := range map[string]struct {
		kind string
		spec func(n int) string
	}{
		"equal hosts": {"ServiceEntry", func(n int) string {
			return `{"hosts": [` + repeated(n, `"a.example"`) + `], "ports": [{"number": 80, "name": "h", "protocol": "HTTP"}]}`
		}},
		"routes that are never reached": {"VirtualService", func(n int) string {
			return `{"hosts": ["a"], "http": [` + repeated(n, `{"route": [{"destination": {"host": "a"}}]}`) + `]}`
		}},
		"weights that are missing": {"VirtualService", func(n int) string {
			return `{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "b"}, "weight": 1},` +
				repeated(n, `{"destination": {"host": "a"}}`) + `]}]}`
		}},
		"SNI that no host stands for": {"VirtualService", func(n int) string {
			return `{"hosts": [` + repeated(n, `"a%d.example"`) + `], "tls": [{"match": [{"sniHosts": [` + repeated(n, `"b%d.test"`) +
				`]}], "route": [{"destination": {"host": "a"}}]}]}`
		}},
		"ports of endpoints": {"ServiceEntry", func(n int) string {
			return `{"hosts": ["a.example"], "resolution": "STATIC", "ports": [` + repeated(n, `{"number": 1%d, "name": "p%d", "protocol": "TCP"}`) +
				`], "endpoints": [{"address": "10.0.0.1", "ports": {` + repeated(n, `"p%d": 80`) + `}}]}`
		}},
		"unknown fields": {"VirtualService", func(n int) string { return `{"hosts": ["a"], ` + repeated(n, `"field%d": 1`) + `}` }},
		"wrong values":   {"ServiceEntry", func(n int) string { return `{"hosts": [` + repeated(n, `{"a": %d}`) + `]}` }},
		"conditions of retries": {"VirtualService", func(n int) string {
			return `{"hosts": ["a"], "http": [{"retries": {"attempts": 1, "retryOn": "` + strings.Repeat("bogus,", n) + `5xx"}, "route": [{"destination": {"host": "a"}}]}]}`
		}},
		"commands": {"VirtualService", func(n int) string {
			return `{"hosts": ["a"], "http": [{"headers": {"request": {"set": {` + repeated(n, `"h%d": "%BOGUS%"`) + `}}}, "route": [{"destination": {"host": "a"}}]}]}`
		}},
		"large regular expressions": {"VirtualService", func(n int) string {
			return `{"hosts": ["a"], "http": [{"match": [` + repeated(n, `{"uri": {"regex": "%d`+strings.Repeat(`x{1000}`, 100)+`"}}`) +
				`], "route": [{"destination": {"host": "a"}}]}]}`
		}},
		"regular expressions that are large together": {"VirtualService", func(n int) string {
			return `{"hosts": ["a"], "http": [{"match": [` + repeated(n, `{"uri": {"regex": "%d(x{1000}){10}"}}`) +
				`], "route": [{"destination": {"host": "a"}}]}]}`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := kindOf("networking.istio.io/v1", test.kind)
			const n, times = 300, 8
			small, _ := costOf(k, test.spec(n))
			large, _ := costOf(k, test.spec(times*n))
			if large.steps > times*small.steps+times || large.bytes > 12*small.bytes+1<<20 {
				t.Errorf("%d cost %+v, %d %+v", n, small, times*n, large)
			}
			object := `{"apiVersion": "networking.istio.io/v1", "kind": "` + test.kind + `", "metadata": {"name": "a"}, "spec": ` + test.spec(times*n) + `}`
			_, problems := Decode("f", []byte(object))
			if len(problems) == 0 || len(problems) > 2*maxNamed+1 {
				t.Fatalf("%d problems", len(problems))
			}
			size := 0
			for _, p := range problems {
				size += len(p.String())
			}
			if size > 200<<10 {
				t.Errorf("the problems are %d bytes long", size)
			}
		})
	}
}

func TestOtherProblemsAreCounted(t *testing.T) {
	_, problems := Decode("f", []byte(`{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "a"}, "spec": {"hosts": [`+
		repeated(1000, `"a.example"`)+`], "ports": [{"number": 80, "name": "h", "protocol": "HTTP"}]}}`))
	const want = "f:1: error: ServiceEntry default/a: spec: has 899 more errors, which are not named"
	if n := len(problems); n != maxNamed+1 || problems[n-1].String() != want {
		t.Errorf("got %d problems, the last is %s\nwant %s", n, problems[n-1], want)
	}
}

func TestJudgingEnds(t *testing.T) {
	items := ReadUntil(func() error { return errors.New("nobody waits") }, services(3))
	if len(items) != 1 || items[0].Object != nil || !strings.Contains(fmt.Sprint(items[0].Problems), "is not judged: nobody waits") {
		t.Errorf("got %+v", items)
	}
}

// Keys and names are the choice of an object's author. A person who reads about the object at a terminal, or line by
// line, must not take a part of them for a line of ours.
func TestProblemsAreOneLineEach(t *testing.T) {
	const forged = `x\n/mesh.yaml:1: error: forged \u001b[2J\u009b1A\u202e\r`
	object := func(kind, spec string) string {
		return `{"apiVersion": "networking.istio.io/v1", "kind": "` + kind + `", "metadata": {"name": "a"}, "spec": ` + spec + `}`
	}
	for name, data := range map[string]string{
		"an unknown field":     object("Gateway", `{"`+forged+`": 1}`),
		"one below an unknown": object("Gateway", `{"selector": {"a": {"`+forged+`": 1}}}`),
		"a wrong value":        object("Gateway", `{"selector": {"`+forged+`": {}}}`),
		"a key of labels":      object("Gateway", `{"selector": {"`+forged+`": "b"}}`),
		"a header":             object("VirtualService", `{"hosts": ["a"], "http": [{"match": [{"headers": {"`+forged+`": {"exact": "b"}}}], "headers": {"request": {"set": {"`+forged+`": "b"}}}, "route": [{"destination": {"host": "a"}}]}]}`),
		"a port":               object("ServiceEntry", `{"hosts": ["a.b"], "resolution": "STATIC", "endpoints": [{"address": "10.0.0.1", "ports": {"`+forged+`": 1}}]}`),
		"a locality":           object("DestinationRule", `{"host": "a", "trafficPolicy": {"loadBalancer": {"localityLbSetting": {"distribute": [{"from": "a", "to": {"`+forged+`": 0}}]}}}}`),
		"a variable":           `{"apiVersion": "networking.istio.io/v1beta1", "kind": "ProxyConfig", "metadata": {"name": "a"}, "spec": {"environmentVariables": {"` + forged + `": "b"}}}`,
		"a key of the object":  `{"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "metadata": {"name": "a"}, "` + forged + `": 1}`,
		"a key given twice":    `{"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "metadata": {"name": "a", "` + forged + `": 1, "` + forged + `": 2}}`,
		"a kind":               `{"apiVersion": "networking.istio.io/v1", "kind": "` + forged + `", "metadata": {"name": "a"}}`,
		"a kind of others":     `{"apiVersion": "` + forged + `", "kind": "` + forged + `", "metadata": {"name": "a"}}`,
		"a name":               `{"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "metadata": {"name": "` + forged + `"}}`,
		"an alias":             "{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: a}, spec: {\"" + forged + "\": *\"" + forged + "\"}}",
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f", []byte(data))
			if len(problems) == 0 {
				t.Fatal("no problem")
			}
			var log strings.Builder
			for _, p := range problems {
				for _, text := range []string{p.String(), p.Object, p.Path, p.Message} {
					if strings.ContainsAny(text, "\n\r\x1b\u009b\u202e") {
						t.Errorf("%q", text)
					}
				}
				p.Log(slog.New(slog.NewTextHandler(&log, nil)))
			}
			if n := strings.Count(log.String(), "\n"); n != len(problems) || strings.ContainsAny(log.String(), "\x1b\u009b\u202e") {
				t.Errorf("the log of %d problems has %d lines: %q", len(problems), n, log.String())
			}
		})
	}
	note := OfNote(model.Note{Meta: model.Meta{Kind: "Pod", Name: "a\nb"}, Path: "c\x1b[2J", Message: "d\r\u202e"})
	if text := note.String(); strings.ContainsAny(text, "\n\r\x1b\u202e") {
		t.Errorf("%q", text)
	}
}

// A large number in base 16 is not converted.
func TestLargeNumber(t *testing.T) {
	_, problems := Decode("f", []byte(head+"metadata: {name: a}\nspec: {host: a, trafficPolicy: {connectionPool: {tcp: {maxConnections: 0x"+
		strings.Repeat("f", 1<<20)+"}}}}"))
	if len(problems) != 1 || !strings.HasSuffix(problems[0].String(), "maxConnections: is 1e999, want a whole number") {
		t.Errorf("got %.300s", fmt.Sprint(problems))
	}
}
