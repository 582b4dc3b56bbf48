package explain

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// sides is a mesh of a client with an account, one without, and a server with an account, without another.
const sides = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: server, namespace: shop}
spec:
  hosts: [server.test]
  addresses: [10.96.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: tcp, protocol: TCP}, {number: 100, name: any}]
  endpoints: [{address: 10.0.0.1, serviceAccount: server, labels: {app: server}}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: client, namespace: shop}
spec: {address: 10.0.0.2, serviceAccount: client}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: plain, namespace: shop}
spec: {address: 10.0.0.3}
`

const key = `{"keys":[{"kty":"EC","crv":"P-256","x":"Mki1sfaDENH3qyouI01WzUAXDlooWvgseqfwrE6FN9E","y":"HlROMPezoWh6iwuJ9nFysnQ_7bpju4E9SO7qzj-_g8Q"}]}`

func object(kind, spec string) string {
	group := "security.istio.io/v1"
	if kind == "DestinationRule" {
		group = "networking.istio.io/v1"
	}
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: a, namespace: shop}\nspec: %s\n", group, kind, spec)
}

func peers(mode string) string { return object("PeerAuthentication", "{mtls: {mode: "+mode+"}}") }

func clientTLS(mode string) string {
	return object("DestinationRule", "{host: server.test, trafficPolicy: {tls: {mode: "+mode+"}}}")
}

func meshOf(t *testing.T, text string) *model.Mesh {
	t.Helper()
	objects, problems := config.Decode("mesh.yaml", []byte(text))
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	return model.New(slices.Values([]model.Group{{Objects: objects}}))
}

var (
	tokens   = object("RequestAuthentication", "{jwtRules: [{issuer: a.test, jwks: '"+key+"'}]}")
	anyToken = object("AuthorizationPolicy", `{rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]}`)
	admins   = object("AuthorizationPolicy", `{rules: [{when: [{key: "request.auth.claims[groups]", values: [admin]}]}]}`)
)

// bearer returns a header with a token of these claims.
func bearer(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return "authorization=Bearer " + part([]byte(`{"alg":"ES256"}`)) + "." + part([]byte(claims)) + ".c2ln"
}

// What keeps a token out is said with the rule, the claim and what the policy wants of it.
func TestClaimsAreNamed(t *testing.T) {
	q := Question{From: "shop/plain", To: "server.test", Method: "GET", Path: "/", Header: []string{bearer(`{"iss":"a.test","sub":"me","groups":["user"],"exp":1}`)}}
	road, err := q.Answer(meshOf(t, sides+tokens+admins))
	if err != nil {
		t.Fatal(err)
	}
	text := road.Text()
	for _, want := range []string{"the token of issuer a.test, subject me, until 1970-01-01T00:00:01Z passes if it is sound", `the token's claim groups is [user], want "admin"`, "AuthorizationPolicy shop/a spec.rules[0]"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// What the two sides of a connection speak is compared, and policies of the server are judged.
func TestServers(t *testing.T) {
	const allow, deny = "AuthorizationPolicy", "{action: DENY, rules: [%s]}"
	for _, row := range []struct {
		name, objects, from, want string
		port                      int
		path, header              string
	}{
		{name: "nothing is said", from: "shop/client", want: "a server answers"},
		{name: "plain text, PERMISSIVE", from: "shop/plain", want: "a server answers"},
		{name: "plain text, STRICT", objects: peers("STRICT"), from: "shop/plain", want: "503 UC plain text, but the server's port 80 takes mutual TLS only [PeerAuthentication shop/a"},
		{name: "mutual TLS, STRICT", objects: peers("STRICT"), from: "shop/client", want: "a server answers"},
		{name: "automatic, DISABLE", objects: peers("DISABLE"), from: "shop/client", want: "a server answers"},
		{
			name: "ISTIO_MUTUAL, DISABLE", objects: peers("DISABLE") + clientTLS("ISTIO_MUTUAL"), from: "shop/client",
			want: "503 UF mutual TLS [DestinationRule shop/a spec.trafficPolicy.tls at mesh.yaml:31], but the server's port 80 takes plain text only [PeerAuthentication shop/a spec.mtls at mesh.yaml:26",
		},
		{name: "DISABLE, STRICT", objects: peers("STRICT") + clientTLS("DISABLE"), from: "shop/client", want: "503 UC plain text [DestinationRule shop/a"},
		{name: "SIMPLE, STRICT", objects: peers("STRICT") + clientTLS("SIMPLE"), from: "shop/client", want: "503 UC TLS [DestinationRule shop/a"},
		{name: "SIMPLE, PERMISSIVE", objects: clientTLS("SIMPLE"), from: "shop/client", want: "503 UF TLS [DestinationRule shop/a"},
		{name: "bytes, STRICT", objects: peers("STRICT"), from: "shop/plain", port: 90, want: "the connection is closed: plain text, but"},
		{name: "bytes, mutual TLS", objects: peers("STRICT"), from: "shop/client", port: 90, want: "a server answers"},
		{name: "TLS through a port of TCP", objects: clientTLS("SIMPLE"), from: "shop/client", port: 90, want: "a server answers, which must speak TLS itself"},
		{name: "any protocol, STRICT", objects: peers("STRICT"), from: "shop/client", port: 100, want: "a server answers"},
		{
			name: "a level of the port", objects: object("PeerAuthentication", "{selector: {matchLabels: {app: server}}, portLevelMtls: {80: {mode: STRICT}}}"),
			from: "shop/plain", want: "503 UC plain text, but the server's port 80 takes mutual TLS only [PeerAuthentication shop/a spec.portLevelMtls at",
		},
		{name: "allowed", objects: object(allow, "{rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}]}]}"), from: "shop/client", want: "a server answers"},
		{name: "not allowed", objects: object(allow, "{rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/other]}}]}]}"), from: "shop/client", want: "403  no policy of the server allows it"},
		{name: "nobody is allowed", objects: object(allow, "{}"), from: "shop/client", want: "403  no policy of the server allows it"},
		{name: "plain text is nobody", objects: object(allow, "{rules: [{from: [{source: {namespaces: [shop]}}]}]}"), from: "shop/plain", want: "403  no policy of the server allows it"},
		{name: "denied", objects: object(allow, fmt.Sprintf(deny, `{to: [{operation: {paths: ["/secret*"]}}]}`)), from: "shop/plain", path: "/secret/x", want: "403  denied by ns[shop]-policy[a]-rule[0] [AuthorizationPolicy shop/a spec.rules[0] at"},
		{name: "not denied", objects: object(allow, fmt.Sprintf(deny, `{to: [{operation: {paths: ["/secret*"]}}]}`)), from: "shop/plain", path: "/open", want: "a server answers"},
		{name: "denied, since it is nobody", objects: object(allow, fmt.Sprintf(deny, `{from: [{source: {notPrincipals: ["*"]}}]}`)), from: "shop/plain", want: "403  denied by"},
		{name: "by method and port", objects: object(allow, `{rules: [{to: [{operation: {methods: [POST], ports: ["80"]}}]}]}`), from: "shop/plain", want: "403  no policy"},
		{name: "by the client's address", objects: object(allow, `{rules: [{from: [{source: {ipBlocks: [10.0.0.3]}}]}]}`), from: "shop/plain", want: "a server answers"},
		{name: "a path template is not judged", objects: object(allow, `{rules: [{to: [{operation: {paths: ["/{*}/x"]}}]}]}`), from: "shop/plain", want: "a server answers; unless ns[shop]-policy[a]-rule[0]"},
		{
			name: "no token", objects: object("RequestAuthentication", "{jwtRules: [{issuer: a.test, jwks: '"+key+"'}]}") + object(allow, `{rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]}`),
			from: "shop/plain", want: "403  no policy",
		},
		{
			name: "a token", objects: object("RequestAuthentication", "{jwtRules: [{issuer: a.test, jwks: '"+key+"'}]}") + object(allow, `{rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]}`),
			from: "shop/plain", header: "authorization=Bearer x", want: "401  the token is not HEADER.CLAIMS.SIGNATURE",
		},
		{name: "a sound token", objects: tokens + anyToken, from: "shop/plain", header: bearer(`{"iss":"a.test","sub":"me"}`), want: "a server answers; unless " + tokenTime},
		{name: "of another issuer", objects: tokens + anyToken, from: "shop/plain", header: bearer(`{"iss":"b.test"}`), want: `401  the token is of issuer "b.test", want "a.test"`},
		{name: "of no issuer, without a policy", objects: tokens, from: "shop/plain", header: bearer(`{}`), want: `401  the token is of issuer ""`},
		{name: "for another audience", objects: tokens, from: "shop/plain", header: bearer(`{"iss":"a.test","aud":["shop"]}`), want: "a server answers; unless " + tokenTime},
		{
			name: "an audience that is not there", objects: object("RequestAuthentication", "{jwtRules: [{issuer: a.test, audiences: [web], jwks: '"+key+"'}]}"), from: "shop/plain",
			header: bearer(`{"iss":"a.test","aud":"shop"}`), want: `403  the token is for the audience ["shop"], want one of ["web"]`,
		},
		{
			name: "an audience as Envoy compares it", objects: object("RequestAuthentication", "{jwtRules: [{issuer: a.test, audiences: ['https://web/'], jwks: '"+key+"'}]}"), from: "shop/plain",
			header: bearer(`{"iss":"a.test","aud":["shop","web"]}`), want: "a server answers; unless",
		},
		{name: "the claim that is wanted", objects: tokens + admins, from: "shop/plain", header: bearer(`{"iss":"a.test","groups":["user","admin"]}`), want: "a server answers; unless " + tokenTime},
		{name: "as a text", objects: tokens + admins, from: "shop/plain", header: bearer(`{"iss":"a.test","groups":"admin"}`), want: "a server answers; unless " + tokenTime},
		{
			name: "a list with spaces", objects: object("RequestAuthentication", "{jwtRules: [{issuer: a.test, spaceDelimitedClaims: [groups], jwks: '"+key+"'}]}") + admins, from: "shop/plain",
			header: bearer(`{"iss":"a.test","groups":"user admin"}`), want: "a server answers; unless " + tokenTime,
		},
		{name: "a text with spaces", objects: tokens + admins, from: "shop/plain", header: bearer(`{"iss":"a.test","groups":"user admin"}`), want: "403  no policy"},
		{name: "another claim", objects: tokens + admins, from: "shop/plain", header: bearer(`{"iss":"a.test","groups":["user"]}`), want: "403  no policy of the server allows it; unless " + tokenTime},
		{name: "two tokens", objects: tokens + admins, from: "shop/plain", path: "/?access_token=a.b.c", header: bearer(`{"iss":"a.test"}`), want: "a server answers; unless a check of its tokens ns[shop]-policy[a]-rule[0]"},
		{name: "elsewhere it is no token", objects: tokens + admins, from: "shop/plain", header: "x-token=x", want: "403  no policy"},
		{
			name: "one of two issuers", objects: object("RequestAuthentication", "{jwtRules: [{issuer: a.test, jwks: '"+key+"'}, {issuer: b.test, jwks: '"+key+"'}]}") + admins, from: "shop/plain",
			header: bearer(`{"iss":"b.test","groups":["admin"]}`), want: "a server answers; unless " + tokenTime,
		},
		{name: "bytes are not allowed by what only requests have", objects: object(allow, `{rules: [{to: [{operation: {methods: [GET]}}]}]}`), from: "shop/plain", port: 90, want: "the connection is closed: no policy"},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := Question{From: row.from, To: fmt.Sprintf("server.test:%d", max(row.port, 80)), Method: "GET", Path: "/" + strings.TrimPrefix(row.path, "/"), TCP: row.port == 90}
			if row.header != "" {
				q.Header = []string{row.header}
			}
			road, err := q.Answer(meshOf(t, sides+row.objects))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range road.Outcomes {
				text := o.Reason
				if o.Status != 0 || o.Flag != "" {
					text = fmt.Sprintf("%d %s %s", o.Status, o.Flag, o.Reason)
				}
				if len(o.Unless) > 0 {
					text += "; unless " + strings.Join(o.Unless, " ")
				}
				got = append(got, text)
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], row.want) {
				t.Errorf("got %q, want %q of\n%s", got, row.want, road.Text())
			}
		})
	}
}

// Endpoints that take different connections share the outcome by their number.
func TestServersThatDiffer(t *testing.T) {
	text := strings.Replace(sides, "endpoints: [", "endpoints: [{address: 10.0.0.8, serviceAccount: server}, {address: 10.0.0.9, serviceAccount: server}, ", 1) +
		object("PeerAuthentication", "{selector: {matchLabels: {app: server}}, mtls: {mode: STRICT}}")
	road, err := Question{From: "shop/plain", To: "server.test", Method: "GET", Path: "/"}.Answer(meshOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range road.Outcomes {
		got = append(got, fmt.Sprintf("%.2f %d of %d", o.Share, o.Status, len(o.Endpoints)))
	}
	slices.Sort(got)
	if want := []string{"0.33 503 of 1", "0.67 0 of 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q of\n%s", got, want, road.Text())
	}
}

// A program that connects to an address, and names no service, may meet a sidecar there: that is judged too, also where the client's own proxy
// passes on bytes of which the server's makes a request.
func TestServersOfAddresses(t *testing.T) {
	for _, row := range []struct {
		name, objects, to, path, want string
		bytes                         bool
	}{
		{name: "HTTP, PERMISSIVE", to: "10.0.0.1:80", want: "sent to the address"},
		{name: "bytes where the server's wants HTTP", to: "10.0.0.1:80", bytes: true, want: "400 from the server's proxy: it wants HTTP, and closes the connection"},
		{name: "bytes at an undeclared port", to: "10.0.0.1:7777", bytes: true, want: "sent to the address"},
		{name: "HTTP, STRICT", objects: peers("STRICT"), to: "10.0.0.1:80", want: "503 UC plain text, but the server's port 80 takes mutual TLS only [PeerAuthentication shop/a"},
		{name: "an undeclared port, STRICT", objects: peers("STRICT"), to: "10.0.0.1:7777", want: "0  the connection is closed: plain text, but the server's port 7777"},
		{name: "denied by its path", objects: object("AuthorizationPolicy", "{action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]}"), to: "10.0.0.1:7777", path: "/x/../secret", want: "403  denied by"},
		{name: "not denied by its path", objects: object("AuthorizationPolicy", "{action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]}"), to: "10.0.0.1:7777", path: "/open", want: "sent to the address"},
		{name: "no endpoint is there", objects: peers("STRICT"), to: "10.9.9.9:7777", want: "sent to the address"},
	} {
		t.Run(row.name, func(t *testing.T) {
			road, err := Question{From: "shop/plain", To: row.to, Method: "GET", Path: row.path, TCP: row.bytes}.Answer(meshOf(t, sides+row.objects))
			if err != nil || len(road.Outcomes) != 1 {
				t.Fatalf("%v, %d outcomes of\n%s", err, len(road.Outcomes), road.Text())
			}
			got := road.Outcomes[0].Reason
			if o := road.Outcomes[0]; o.Status != 0 || o.Closed {
				got = fmt.Sprintf("%d %s %s", o.Status, o.Flag, o.Reason)
			}
			if row.bytes {
				got = road.Outcomes[0].text()
			}
			if !strings.HasPrefix(got, row.want) {
				t.Errorf("got %q, want %q of\n%s", got, row.want, road.Text())
			}
			if e := road.Outcomes[0].Endpoints; len(e) != 1 || e[0].Address != row.to {
				t.Errorf("the endpoints are %v, want %s", e, row.to)
			}
		})
	}
}
