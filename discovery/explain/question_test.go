package explain

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// connectedAs returns a connected sidecar of a namespace that says more of itself.
func connectedAs(t *testing.T, id, account string, said map[string]string) Connected {
	t.Helper()
	p, err := proxyOf(id, map[string]any{"NAMESPACE": "shop"}, said)
	if err != nil {
		t.Fatal(err)
	}
	return Connected{Node: id, View: xds.ViewOf(p), Account: account}
}

// What a connected proxy has said of itself counts, for the sender and for servers: it is not made up.
func TestConnected(t *testing.T) {
	const client, server = "sidecar~10.0.0.3~web-1.shop~shop.svc.cluster.local", "sidecar~10.0.0.1~server-1.shop~shop.svc.cluster.local"
	mesh := meshOf(t, sides+object("PeerAuthentication", "{mtls: {mode: STRICT}}")+
		object("AuthorizationPolicy", "{rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/web]}}]}]}"))
	certified := map[string]string{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_CERTIFICATE": "true"}
	plain := connectedAs(t, server, "", nil)
	for _, row := range []struct {
		name, from string
		all        []Connected
		want       string
		connected  bool
	}{
		{"nobody is connected", "shop/plain", nil, "plain text, but the server's port 80 takes mutual TLS only", false},
		{"with a certificate, by name", "shop/web-1", []Connected{connectedAs(t, client, "web", certified)}, "a server answers", true},
		{"by the name in the node", "web-1.shop", []Connected{connectedAs(t, client, "web", certified)}, "a server answers", true},
		{"by node", client, []Connected{connectedAs(t, client, "web", certified)}, "a server answers", true},
		{"by its workload", "shop/plain", []Connected{connectedAs(t, client, "web", certified)}, "a server answers", true},
		{"another account", "shop/plain", []Connected{connectedAs(t, client, "other", certified)}, "no policy of the server allows it", true},
		{"of another namespace", "shop/plain", []Connected{connectedAs(t, client, "web", map[string]string{"NAMESPACE": "away"})}, "plain text, but", false},
		{"two say the same", "shop/plain", []Connected{connectedAs(t, client, "web", certified), connectedAs(t, strings.Replace(client, "web-1", "web-2", 1), "web", certified)}, "plain text, but", false},
		{"a server without a certificate", "shop/plain", []Connected{plain}, "port 80 takes nothing, for its proxy has no certificate", false},
	} {
		road, err := Question{From: row.from, To: "server.test", Method: "GET", Path: "/"}.AnswerOf(mesh, row.all)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if text := road.Text(); road.Connected != row.connected || !strings.Contains(text, row.want) || strings.Contains(text, "which is connected") != (len(row.all) > 0 && (row.connected || row.all[0].Node == server)) {
			t.Errorf("%s: connected %t, want %t and %q in\n%s", row.name, road.Connected, row.connected, row.want, text)
		}
	}
}

func TestValues(t *testing.T) {
	q := Question{
		From: "a", To: "b:1", Address: "1.2.3.4", Method: "PUT", Path: "/x?y=1&z", Header: []string{"a=b", "c: d"}, TCP: true, TLS: true,
		Metadata: map[string]string{"K": "v=w", "L": ""}, ServerMetadata: map[string]string{"M": "n"},
	}
	for _, want := range []Question{q, {From: "a", To: "b"}} {
		v, err := url.ParseQuery(want.Values().Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseValues(v); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	for query, want := range map[string]string{
		"to=b": "from or to is missing", "from=a": "from or to is missing", "from=a&to=b&tcp=maybe": `tcp "maybe": want true or false`, "from=a&to=b&tls=2": `tls "2": want true or false`,
		"from=a&to=b&meta=x": `meta "x": want KEY=VALUE`, "from=a&to=b&server-meta==x": "want KEY=VALUE", "from=a&to=b&pth=/": `"pth": want one of from, to`,
	} {
		v, _ := url.ParseQuery(query)
		if _, err := ParseValues(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
