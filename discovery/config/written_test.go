package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each object is returned as written, with its keys in order; objects without a namespace get one.
func TestReadWritten(t *testing.T) {
	const text = `
apiVersion: v1
kind: List
items:
- {apiVersion: networking.istio.io/v1, kind: Sidecar, spec: {egress: [{hosts: [&h "./*"]}]}, metadata: {name: a}}
- {apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: b, namespace: }, spec: {egress: [{hosts: [*h]}]}}
- {apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: c, namespace: web}, spec: {egress: [{hosts: [nonsense]}]}}
- {apiVersion: batch/v1, kind: CronJob, metadata: {name: d}}
- {apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: [], spec: {}}
---
a: [`
	type read struct{ Key, Namespace, JSON string }
	var got []read
	for _, d := range Split([]byte(text)) {
		for _, w := range ReadWritten(d.Data, "shop") {
			got = append(got, read{w.Key, w.Namespace, string(w.JSON)})
			if (w.Object == nil) == (len(w.Problems) == 0) {
				t.Errorf("%s has an object: %t, and the problems %v", w.Key, w.Object != nil, w.Problems)
			}
		}
	}
	const sidecar = `{"apiVersion":"networking.istio.io/v1","kind":"Sidecar",`
	want := []read{
		{"Sidecar/shop/a", "shop", sidecar + `"spec":{"egress":[{"hosts":["./*"]}]},"metadata":{"name":"a","namespace":"shop"}}`},
		{"Sidecar/shop/b", "shop", sidecar + `"metadata":{"name":"b","namespace":"shop"},"spec":{"egress":[{"hosts":["./*"]}]}}`},
		{"Sidecar/web/c", "web", sidecar + `"metadata":{"name":"c","namespace":"web"},"spec":{"egress":[{"hosts":["nonsense"]}]}}`},
		{"", "shop", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"d","namespace":"shop"}}`},
		{},
		{},
	}
	for i := range got {
		got[i].JSON = strings.ReplaceAll(strings.ReplaceAll(got[i].JSON, "\n", ""), " ", "")
	}
	if got[4].JSON = ""; len(got) != len(want) {
		t.Fatalf("%d objects are read, want %d", len(got), len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Nine lines can expand to a billion values: they are not expanded.
func TestReadWrittenIsBounded(t *testing.T) {
	bomb := "kind: Sidecar\nmetadata: {name: a}\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		last := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+last+",", 9) + "*" + last + "]\n"
	}
	for _, w := range ReadWritten([]byte(bomb), "shop") {
		if len(w.JSON) > 0 || !w.Refused() {
			t.Errorf("it is read as %d bytes, with %v", len(w.JSON), w.Problems)
		}
	}
	for _, w := range ReadWritten(bytes.Repeat([]byte("#"), maxDocument+1), "shop") {
		if !w.Refused() {
			t.Error("a document that is too large is read")
		}
	}
}

// An object that is written as YAML is read as the same object.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{
		`{"a": "yes", "y": "n", "1": 1, "b": ["", " x ", "0x1f", "1e3", "null", "~", "a: b", "# c", "- d", "line\nbreak\n", "tab\t", "é\u0085\u2028", "=", "<<", "2026-01-31"]}`,
		`{"<<": {"a": null}, "": true, "f": 1.50, "big": 12345678901234567890, "n": -0.0}`, `[]`, `{}`, `"x"`, `{"a": {}, "b": []}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := newReader()
		roots, fault := documents([]byte(text))
		if fault != nil || len(roots) != 1 || !json.Valid([]byte(text)) {
			return
		}
		var object bytes.Buffer
		if r.json(&object, roots[0], false, 0); r.fault != nil {
			return
		}
		written, err := YAML(object.Bytes())
		if err != nil {
			t.Fatalf("%s cannot be written: %v", &object, err)
		}
		again, fault := documents(written)
		if fault != nil || len(again) != 1 {
			t.Fatalf("%s is written as %s, which is read as %v", &object, written, fault)
		}
		var back bytes.Buffer
		if r.json(&back, again[0], false, 0); back.String() != object.String() {
			t.Errorf("%s is written as %s, which is read as %s", &object, written, &back)
		}
	})
}
