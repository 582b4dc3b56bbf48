package statedir

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A text has the groups that fit, and is read only where they depend on the same.
func TestText(t *testing.T) {
	of, at := Of{Domain: "cluster.local", Cluster: "Kubernetes", Scope: "all"}, time.Unix(1e9, 0)
	groups := map[string]model.Group{}
	for i := range 100 {
		groups[fmt.Sprintf("%03d", i)] = model.Group{Services: []*model.Service{{Right: model.RightFull, Host: fmt.Sprintf("%d.test", i), Namespace: strings.Repeat("n", 100)}}}
	}
	whole, left, err := Text("objects", of, groups, maxFile, at)
	if err != nil || len(left) > 0 {
		t.Fatalf("%v is left out, %v", left, err)
	}
	if got, err := Groups(whole, "objects", of); err != nil || len(got) != 100 || !got["042"].Same(groups["042"]) {
		t.Errorf("read are %d groups, %v", len(got), err)
	}
	const most = 16 << 10
	part, left, err := Text("objects", of, groups, most, at)
	if err != nil || len(left) < 40 || left[0] < "010" || len(part) > most {
		t.Errorf("%d of %d bytes: %v is left out, %v", len(part), most, left, err)
	}
	if got, err := Groups(part, "objects", of); err != nil || len(got)+len(left) != 100 {
		t.Errorf("read are %d groups and %d are left out, %v", len(got), len(left), err)
	}
	none, _, err := Text("objects", of, nil, most, at)
	if got, unread := Groups(none, "objects", of); err != nil || unread != nil || len(got) > 0 {
		t.Errorf("of none there are %v, %v %v", got, err, unread)
	}
	other := of
	other.Scope = "one namespace"
	for name, test := range map[string]struct {
		text   []byte
		source string
		of     Of
		want   string
	}{
		"another source":   {whole, "files", of, `is of source "objects", now it is "files"`},
		"another scope":    {whole, "objects", other, `is of settings "all", now it is "one namespace"`},
		"cut":              {whole[:len(whole)/2], "objects", of, "is not whole"},
		"a changed letter": {bytes.Replace(whole, []byte("42.test"), []byte("43.test"), 1), "objects", of, "is damaged"},
		"something else":   {[]byte("a: b\n"), "objects", of, "is of format"},
		"nothing":          {nil, "objects", of, "is not whole"},
	} {
		if _, err := Groups(test.text, test.source, test.of); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %s", name, err, test.want)
		}
	}
}
