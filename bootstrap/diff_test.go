package bootstrap

import (
	"bytes"
	"errors"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, test := range []struct{ name, a, b, want string }{
		{
			"the same, in either spelling", `{"statsFlushInterval": "1s", "node": {"id": "a"}}`,
			`{"node": {"id": "a"}, "stats_flush_interval": "1s"}`, "",
		},
		{"changed, gone, new", `{"node": {"id": "a", "cluster": "c"}}`, `{"node": {"id": "b", "metadata": {"X": 1}}}`, `
- node.cluster: "c"
- node.id: "a"
+ node.id: "b"
+ node.metadata: {"X":1}
`},
		{
			"what has a name",
			`{"static_resources": {"clusters": [{"name": "xds-grpc", "connect_timeout": "1s"}, {"name": "zipkin"}]}}`,
			`{"static_resources": {"clusters": [{"name": "mine"}, {"name": "xds-grpc", "connect_timeout": "2s"}]}}`, `
+ static_resources.clusters[mine]: {"name":"mine"}
- static_resources.clusters[xds-grpc].connect_timeout: "1s"
+ static_resources.clusters[xds-grpc].connect_timeout: "2s"
- static_resources.clusters[zipkin]: {"name":"zipkin"}
`,
		},
		{"what has none", `{"stats_sinks": [{"a": 1}, {"b": 2}]}`, `{"stats_sinks": [{"a": 3}]}`, `
- stats_sinks[0].a: 1
+ stats_sinks[0].a: 3
- stats_sinks[1]: {"b":2}
`},
		{"another type", `{"x": [1]}`, `{"x": {"y": 1}}`, "\n- x: [1]\n+ x: {\"y\":1}\n"},
		{"a secret that differs", `{"key": "secret-1"}`, `{"key": "secret-2"}`, `
- key: "hidden-x" (differs)
+ key: "hidden-x" (differs)
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Diff([]byte(test.a), []byte(test.b), hide)
			if want := string(bytes.TrimPrefix([]byte(test.want), []byte("\n"))); err != nil || got != want {
				t.Errorf("got error %v and\n%swant\n%s", err, got, want)
			}
		})
	}
}

// hide stands for the agent's masker.
func hide(text []byte) ([]byte, error) {
	for _, secret := range []string{"secret-1", "secret-2"} {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("hidden-x"))
	}
	return text, nil
}

func TestDiffRefuses(t *testing.T) {
	broken := func([]byte) ([]byte, error) { return nil, errors.New("no mask") }
	if _, err := Diff([]byte(`{}`), []byte(`{}`), broken); err == nil {
		t.Error("without a mask: got no error")
	}
	if _, err := Diff([]byte(`{}`), []byte(`[]`), hide); err == nil {
		t.Error("a list: got no error")
	}
}
