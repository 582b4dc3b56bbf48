package proxystatus

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// connected is a proxy of namespace shop with a state of each type.
func connected(name string, states ...protocol.State) ads.Client {
	c := ads.Client{
		Node: "sidecar~10.0.0.1~" + name + ".shop~shop.svc.cluster.local", Namespace: "shop", Name: name, Version: "envoy 1.40.0", Peer: "10.0.0.1:5",
		Variant: "delta", Connected: now.Add(-time.Minute), Identity: "spiffe://cluster.local/ns/shop/sa/" + name,
	}
	for i, s := range states {
		c.Types = append(c.Types, protocol.Type{Name: kinds[i], State: s})
	}
	return c
}

// The proxies that refuse something come first, then those with notes or that wait, then those that are behind.
func TestTheWorstIsFirst(t *testing.T) {
	nacked := connected("nacked", protocol.StateSynced, protocol.StateStale, protocol.StateNacked)
	nacked.Types[2].Nack = &protocol.Nack{Text: "no such\nfilter", Time: now}
	part := connected("part", protocol.StateNacked)
	part.Types[0].Nack = &protocol.Nack{Text: "bad regex", Time: now}
	part.Types[0].Refused = []protocol.Refused{{Resource: "http.80", Host: "a.test:80", Text: "bad regex", Since: now}}
	mended := connected("mended", protocol.StateSynced)
	mended.Types[0].Nack = &protocol.Nack{Text: "an old one"}
	waiting := connected("waiting", protocol.StateSynced)
	waiting.Waits = protocol.Wait{Since: now, Lost: model.Tally{Had: 4, Lost: 3}}
	all := Of([]ads.Client{
		connected("good", protocol.StateSynced), connected("behind", protocol.StateSynced, protocol.StateStale), mended,
		{Peer: "10.0.0.9:1"},
		connected("noted", protocol.StateSynced), waiting, part, nacked,
	}, []model.Note{
		{Code: model.OldEnvoy, Meta: model.Meta{Kind: "Proxy", Namespace: "shop", Name: "noted"}, Message: "it is old"},
		{Code: model.NoLabels, Meta: model.Meta{Kind: "Sidecar", Namespace: "shop", Name: "s"}, Proxies: []string{"shop/noted"}, Message: "no labels"},
		{Code: model.OldEnvoy, Meta: model.Meta{Kind: "Proxy", Namespace: "other", Name: "good"}, Message: "of another"},
		{Code: model.UnknownHost, Meta: model.Meta{Kind: "VirtualService", Namespace: "shop", Name: "good"}, Message: "of an object"},
		{Code: model.OldEnvoy, Meta: model.Meta{Kind: "Proxy"}, Message: "of nobody"},
	})
	var names []string
	for _, p := range all {
		names = append(names, fmt.Sprintf("%s %s %d%d", p.Name, p.State, len(p.Refused), len(p.Notes)))
	}
	if got, want := strings.Join(names, ", "), "nacked NACKED 10, part NACKED 10, noted SYNCED 02, waiting SYNCED 00, behind STALE 00,  NOT SENT 00, good SYNCED 00, mended SYNCED 00"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Read(text, ""); err != nil || !reflect.DeepEqual(again, all) {
		t.Errorf("read again it is %+v, %v", again, err)
	}
	shown := Text(all, now)
	for _, want := range []string{
		"PROXY                         ROLE     IDENTITY", "NACKED, 1 refused  SYNCED  STALE", "SYNCED  STALE  NACKED  -    0      1m0s\n",
		"shop/nacked: refuses LDS at 2026-01-02T03:04:05Z: no such\\nfilter\n", "\nshop/part: refuses CDS http.80 a.test:80 at 2026-01-02T03:04:05Z: bad regex\n",
		"shop/noted: old-envoy: it is old\n", "shop/noted: no-labels Sidecar shop/s: no labels\n", "not named yet, at 10.0.0.9:1",
		"shop/waiting: keeps what it has since 2026-01-02T03:04:05Z, until a source is whole that it may have been of: it would lose 3 of its 4 clusters\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("the text lacks %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "of another") || strings.Contains(shown, "of an object") || strings.Contains(shown, "an old one") {
		t.Errorf("the text has what concerns no proxy:\n%s", shown)
	}
	for named, want := range map[string]int{"noted": 1, "shop/noted": 1, all[0].Node: 1, "nobody": 0, "shop/": 0} {
		if got, err := Read(text, named); len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("%s is %d proxies, %v, want %d", named, len(got), err, want)
		}
	}
}

// Nobody's words break a line or a column.
func TestTextIsPlain(t *testing.T) {
	c := connected("a\tb\n\x1b[31m", protocol.StateSynced)
	c.Version = "envoy\n1"
	if shown := Text(Of([]ads.Client{c}, nil), now); strings.Count(shown, "\n") != 2 || strings.Contains(shown, "\x1b") {
		t.Errorf("got %q", shown)
	}
}

func TestResources(t *testing.T) {
	const dump = `{"cds": [{"@type": "t", "name": "a"}, {"name": "b\n"}], "eds": [{"clusterName": "a"}], "sds": [{"name": "default", "version": "1"}], "nds": []}`
	for only, want := range map[string]string{"": "cds a\ncds b\\n\neds a\nsds default\n", "clusters": "cds a\ncds b\\n\n", "secrets": "sds default\n", "routes": ""} {
		if _, names, err := ReadResources([]byte(dump), only); err != nil || names != want {
			t.Errorf("%q: got %q, %v, want %q", only, names, err, want)
		}
	}
	if _, _, err := ReadResources([]byte("<html>"), ""); err == nil {
		t.Error("a page of another server is read")
	}
	if _, err := Read([]byte("<html>"), ""); err == nil || !strings.Contains(err.Error(), "of this version") {
		t.Errorf("a page of another server: %v", err)
	}
	if err := CheckType("cluster"); err == nil || !strings.Contains(err.Error(), "want one of clusters, endpoints, listeners, routes, secrets") {
		t.Errorf("got %v", err)
	}
}
