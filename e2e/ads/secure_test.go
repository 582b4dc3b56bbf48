package ads

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// secureADS is overADS with mTLS between the Envoys and discovery.
func secureADS(t *testing.T, test func(l *envoyLab, mount func(identity, dir string, serial int64))) {
	ca, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	mount := func(identity, dir string, serial int64) {
		t.Helper()
		i, err := ca.Issue(identity, serial)
		if err == nil {
			err = i.Mount(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", port)
	mount("discovery.test", dir, 11)
	overADS(t, func(l *envoyLab) {
		l.serverDir = dir
		var err error
		l.relay, err = newRelay(address)
		l.Check(err)
		t.Cleanup(l.relay.Close)
		test(l, mount)
	}, "--secureGRPCAddr", address, "--tlsCertFile", filepath.Join(dir, "cert-chain.pem"),
		"--tlsKeyFile", filepath.Join(dir, "key.pem"), "--caCertFile", filepath.Join(dir, "root-cert.pem"))
}

// present makes the Envoys that start from now on present the identity in a directory.
func (l *envoyLab) present(dir string) {
	l.T.Helper()
	file := func(name string) map[string]any { return map[string]any{"filename": filepath.Join(dir, name)} }
	socket, err := json.Marshal(map[string]any{
		"name": "envoy.transport_sockets.tls",
		"typed_config": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
			"sni":   "discovery.test",
			"common_tls_context": map[string]any{
				"tls_certificates": []any{map[string]any{"certificate_chain": file("cert-chain.pem"), "private_key": file("key.pem")}},
				"validation_context": map[string]any{
					"trusted_ca":                    file("root-cert.pem"),
					"match_typed_subject_alt_names": []any{map[string]any{"san_type": "DNS", "matcher": map[string]any{"exact": "discovery.test"}}},
				},
			},
		},
	})
	l.Check(err)
	l.socket = `, "transport_socket": ` + string(socket)
}

// An Envoy with a certificate of its namespace is served over mTLS. New certificates of the server are used without
// cutting its stream, and by the next one.
func TestOverMutualTLS(t *testing.T) {
	t.Parallel()
	secureADS(t, func(l *envoyLab, mount func(string, string, int64)) {
		own := t.TempDir()
		mount("spiffe://cluster.local/ns/default/sa/ads", own, 2)
		l.present(own)
		e := l.start(0)
		l.answers("one")
		before := l.clients(1)[0].Peer
		mount("discovery.test", l.serverDir, 12)
		l.Check(lab.Eventually(lab.StopLimit, func() error {
			if n := strings.Count(l.Discovery.Log(), "certificates read"); n < 2 { // at the start, and now
				return fmt.Errorf("read %d times", n)
			}
			return nil
		}))
		l.serve("two")
		l.answers("two")
		if after := l.clients(1)[0].Peer; after != before {
			t.Errorf("the stream of %s was cut for one of %s", before, after)
		}
		l.relay.Cut()
		l.Check(lab.Eventually(30*time.Second, func() error {
			if after := l.clients(1)[0].Peer; after == before {
				return fmt.Errorf("still the old stream, %s", after)
			}
			return nil
		}))
		l.serve("one")
		l.answers("one")
		if n := l.stat(e, "cluster.xds-grpc.ssl.handshake"); n != 2 {
			t.Errorf("Envoy counts %d handshakes with discovery, want 2", n)
		}
	})
}

// An Envoy with another namespace's certificate is refused, with the reason in its log and ours.
func TestRefusesAnotherNamespace(t *testing.T) {
	t.Parallel()
	secureADS(t, func(l *envoyLab, mount func(string, string, int64)) {
		foreign := t.TempDir()
		mount("spiffe://cluster.local/ns/other/sa/ads", foreign, 2)
		l.present(foreign)
		e := l.launch(0)
		const reason = `node is of namespace "default", its certificate is for "spiffe://cluster.local/ns/other/sa/ads"`
		l.Check(e.AwaitLog(reason))
		l.Check(l.Discovery.AwaitLog("proxy refused"))
		var clients []ads.Client
		l.Check(l.debug("adsz", &clients))
		for _, c := range clients {
			if c.Node != "" {
				t.Errorf("%s is served", c.Node)
			}
		}
	})
}
