package proxy

import (
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A template or an override that leads to discovery in its own way is left alone.
func TestThrough(t *testing.T) {
	dir, socket := t.TempDir(), "/run/proxy/ads-X.sock"
	p, err := Resolve(sidecar("/run/proxy"), host)
	if err != nil {
		t.Fatal(err)
	}
	params := p.params
	params.Discovery.Variant, params.Discovery.Socket = bootstrap.Delta, socket
	file := func(name, text string) Input {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Input{Name: "--" + name, Path: path, Given: true}
	}
	for _, test := range []struct {
		name   string
		source Source
		want   bool
		no     string // of ADS
	}{
		{"the role's own", Source{}, true, ""},
		{"an override of another part", Source{Override: file("o1", `{"stats_flush_interval": "7s"}`)}, true, ""},
		{"an override of the variant", Source{Override: file("o2", `{"dynamic_resources": {"ads_config": {"api_type": "GRPC"}}}`)}, false, ""},
		{"a template with our clusters", Source{Template: file("t1", `{"node": {{template "node" .}},
			"dynamic_resources": {{template "dynamic_resources" .}}, "static_resources": {{template "static_resources" .}}}`)}, true, ""},
		{"a template with its own cluster", Source{Template: file("t2", `{"node": {{template "node" .}}, "dynamic_resources": {{template "dynamic_resources" .}},
			"static_resources": {"clusters": [{"name": "xds-grpc", "load_assignment": {"cluster_name": {{.Discovery.Host}}}}]}}`)}, false, ""},
		{"a template with TLS of its own", Source{Template: file("t3", `{"node": {{template "node" .}}, "dynamic_resources": {{template "dynamic_resources" .}},
			"static_resources": {"clusters": [{"name": "xds-grpc", "transport_socket": {"name": "x"}, "load_assignment": {"cluster_name": {{.Discovery.Socket}}}}]}}`)}, false, ""},
		{"a template without ADS", Source{Template: file("t4", `{"node": {{template "node" .}}}`)}, false, "ADS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, _, err := test.source.bootstrap(params)
			if err != nil {
				t.Fatal(err)
			}
			if ads, got := through(text, socket); got != test.want || ads != (test.no == "") {
				t.Errorf("got %v, with ADS %v, want %v: %s", got, ads, test.want, text)
			}
		})
	}
}

// The hash of a bootstrap stays over a start of the agent, and changes with everything else.
func TestHashOf(t *testing.T) {
	const socket = `{"a": 1, "path": "/run/proxy/ads-AAAAAAAAAAAAAAAAAAAAAAAAAA.sock", "b": "/run/proxy/sds-AAAAAAAAAAAAAAAAAAAAAAAAAA.sock"}`
	first, _ := hashOf([]byte(socket))
	if again, _ := hashOf([]byte(strings.ReplaceAll(socket, "AAAA", "BBBB"))); again != first {
		t.Error("another token changes it")
	}
	if other, _ := hashOf([]byte(strings.Replace(socket, "1", "2", 1))); other == first {
		t.Error("another value does not change it")
	}
}

// Whether the node has a certificate does not change the hash, wherever it is in the metadata.
func TestHashOfACertificate(t *testing.T) {
	p, err := Resolve(sidecar("/run/proxy"), host)
	if err != nil {
		t.Fatal(err)
	}
	render := func(certificate bool) []byte {
		p.params.Metadata.Certificate = certificate
		text, _, err := Source{}.bootstrap(p.params)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, pair := range map[string][2]string{
		"rendered": {string(render(false)), string(render(true))},
		"first":    {`{"B": 1}`, `{"PILOTLIGHT_CERTIFICATE": "true", "B": 1}`},
		"last":     {"{\n\"A\": 1\n}", "{\n\"A\": 1,\n\"PILOTLIGHT_CERTIFICATE\": \"true\"\n}"},
		"between":  {`{"A":1,"B":1}`, `{"A":1,"PILOTLIGHT_CERTIFICATE":"true","B":1}`},
	} {
		without, no := hashOf([]byte(pair[0]))
		with, yes := hashOf([]byte(pair[1]))
		if without != with || no || !yes {
			t.Errorf("%s: hashes %s, %s, certified %t, %t", name, without, with, no, yes)
		}
	}
}

// Discovery is shown the newest certificate, and the last good one while the files are broken.
func TestMaterial(t *testing.T) {
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	m := &material{files: cert.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}}
	issue := func(serial int64) {
		t.Helper()
		identity, err := authority.Issue("client", serial)
		if err != nil {
			t.Fatal(err)
		}
		for path, data := range map[string][]byte{m.files.Chain: identity.Chain, m.files.Key: identity.Key, m.files.Roots: identity.Roots} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	shows := func(want int64) {
		t.Helper()
		own, roots, err := m.read()
		if err != nil || roots == nil || own.Leaf.SerialNumber.Int64() != want {
			t.Errorf("got %v, %v, want certificate %d", own.Leaf, err, want)
		}
	}
	if _, _, err := m.read(); err == nil {
		t.Error("there are no files, and no error")
	}
	issue(1)
	shows(1)
	if err := os.WriteFile(m.files.Key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(1)
	// The next image of the agent shows what this one does.
	text, err := json.Marshal(m.carry())
	if err != nil {
		t.Fatal(err)
	}
	var carried cert.Contents
	if err := json.Unmarshal(text, &carried); err != nil {
		t.Fatal(err)
	}
	m = &material{files: m.files}
	m.resume(carried)
	shows(1)
	m.resume(cert.Contents{Chain: []byte("half"), Key: []byte("half")})
	shows(1)
	issue(2)
	shows(2)
	// Files are replaced one by one: without roots there is nothing by which discovery can be known.
	issue(3)
	if err := os.Remove(m.files.Roots); err != nil {
		t.Fatal(err)
	}
	shows(2)
	m.resume(cert.Contents{Chain: m.good.Chain, Key: m.good.Key})
	if _, roots, err := m.read(); err != nil || len(m.good.Roots) == 0 || roots.Equal(x509.NewCertPool()) {
		t.Errorf("the roots are forgotten: %v", err)
	}
	if _, roots, err := (&material{files: m.files}).read(); err == nil || !strings.Contains(err.Error(), "root-cert.pem is missing") {
		t.Errorf("without roots there are %v, and the error %v", roots, err)
	}
	issue(4)
	shows(4)
}
