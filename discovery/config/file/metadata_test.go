package file

import (
	"testing"
	"time"
)

// A change of only an object's metadata is sent too.
func TestChangedMetadataIsTold(t *testing.T) {
	s := newState(0)
	for i, step := range []struct {
		metadata string
		want     int
	}{
		{", labels: {app: a}", 1},
		{", labels: {app: b}", 1},
		{", labels: {'app': 'b'}", 0},
		{", creationTimestamp: '2026-01-01T00:00:00Z', labels: {app: b}", 1},
		{", creationTimestamp: '2026-01-01T00:00:00.0Z', labels: {app: b}", 0},
		{"", 1},
	} {
		entry := file("1.yaml", "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: a"+step.metadata+
			"}, spec: {address: 10.0.0.1}}\n")
		out := s.apply(s.lookAt([]File{entry}), start0.Add(time.Duration(i)*time.Hour))
		if len(out.groups) != step.want || len(out.problems) > 0 {
			t.Errorf("step %d: %d groups change, want %d (%v)", i, len(out.groups), step.want, out.problems)
		}
	}
}
