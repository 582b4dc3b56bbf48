package file

import (
	"strings"
	"testing"
)

// A file is read a second time only where a ConfigMap is ignored: reading YAML is most of what the commands over files cost.
func TestFilesWithoutConfigMapsAreReadOnce(t *testing.T) {
	const entry = "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: a}, spec: {address: 10.0.0.1}}\n---\n"
	plain := []File{file("1.yaml", strings.Repeat(entry, 100))}
	_, problems := Check(plain)
	if n := testing.AllocsPerRun(5, func() { WithConfigMaps(problems, plain) }); n > 10 {
		t.Errorf("%v allocations for a file without a ConfigMap", n)
	}
	with := []File{plain[0], file("2.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio}\ndata:\n  mesh: |\n    nope: 1\n")}
	with[0].Data = []byte(entry)
	_, problems = Check(with)
	got := WithConfigMaps(problems, with)
	if len(got) != 1 || got[0].File != "2.yaml" || !strings.Contains(got[0].Message, "nope") && !strings.Contains(got[0].Path, "nope") {
		t.Errorf("the problems are %v", got)
	}
}
