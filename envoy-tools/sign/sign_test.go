package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/clidoc"
)

// release makes a directory with a binary, an image and its contents, and keys; it returns their paths.
func release(t *testing.T) (dir, private, public string) {
	t.Helper()
	dir = t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	write(t, filepath.Join(dir, "pub.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open})))
	write(t, filepath.Join(dir, "agent"), "a program")
	write(t, filepath.Join(dir, "proxy-amd64.spdx.json"), "{\n \"spdxVersion\": \"SPDX-2.3\", \"name\": \"<proxy>\"}\n")
	write(t, filepath.Join(dir, "proxy-amd64.tar"), archive("sha256:ab12"))
	return dir, filepath.Join(dir, "key.pem"), filepath.Join(dir, "pub.pem")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func archive(digest string) string {
	index := fmt.Sprintf(`{"manifests": [{"digest": %q, "annotations": {"org.opencontainers.image.ref.name": "registry.example/pilotlight/proxy:v1"}}]}`, digest)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range map[string]string{"blobs/x": "x", "index.json": index} {
		_ = w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600}) // into memory
		_, _ = io.WriteString(w, text)
	}
	_ = w.Close()
	return out.String()
}

// What is signed is verified; a changed file, signature, list of contents, image or key is not.
func TestSignAndVerify(t *testing.T) {
	for _, tt := range []struct {
		name, fault string
		change      func(t *testing.T, dir string)
	}{
		{"nothing changed", "", func(*testing.T, string) {}},
		{"another program", "agent.sig is not of this file and key", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "agent"), "another") }},
		{"another signature", "agent.sig is not of this file and key", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "agent.sig"), "AAAA") }},
		{"no signature", "agent.sig", func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "agent.sig")) }},
		{"other contents", "attests another image, or other contents", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "proxy-amd64.spdx.json"), "{}") }},
		{"no attestation", "proxy-amd64.att.json", func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "proxy-amd64.att.json")) }},
		{"an attestation of another image", "attests another image", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "proxy-amd64.tar"), archive("sha256:cd34"))
			if err := signFileOf(dir, "proxy-amd64.tar"); err != nil {
				t.Fatal(err)
			}
			other := filepath.Join(dir, "other")
			if err := os.Mkdir(other, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(other, "a.tar"), archive("sha256:ef56"))
			write(t, filepath.Join(other, "a.spdx.json"), "{\n \"spdxVersion\": \"SPDX-2.3\", \"name\": \"<proxy>\"}\n")
			if err := signFileOf(dir, filepath.Join("other", "a.tar")); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(other, "a.att.json"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "proxy-amd64.att.json"), string(text))
		}},
		{"a changed attestation", "no signature is of this payload", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "proxy-amd64.att.json")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var e envelope
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			e.Payload = bytes.Replace(e.Payload, []byte("ab12"), []byte("ab13"), 1)
			text, _ = json.Marshal(e)
			write(t, path, string(text))
		}},
		{"another key", "is not of this file and key", func(t *testing.T, dir string) {
			_, _, public := release(t)
			text, err := os.ReadFile(public)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "pub.pem"), string(text))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, private, public := release(t)
			files := []string{filepath.Join(dir, "agent"), filepath.Join(dir, "proxy-amd64.tar")}
			if err := run(append([]string{private}, files...), io.Discard); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			err := run(append([]string{"-verify", public}, files...), io.Discard)
			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("got %v, want %q", err, tt.fault)
			}
		})
	}
}

func signFileOf(dir, name string) error {
	key, err := readPrivate(filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	return signFile(filepath.Join(dir, name), key)
}

// The attestation names the digest by which a registry knows the image, and its list of contents.
func TestStatement(t *testing.T) {
	dir, private, _ := release(t)
	if err := run([]string{private, filepath.Join(dir, "proxy-amd64.tar")}, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "proxy-amd64.att.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	const want = `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"pilotlight/proxy","digest":{"sha256":"ab12"}}],` +
		`"predicateType":"https://spdx.dev/Document","predicate":{"spdxVersion":"SPDX-2.3","name":"\u003cproxy\u003e"}}`
	if string(e.Payload) != want {
		t.Errorf("it is\n%s, want\n%s", e.Payload, want)
	}
}

// OpenSSL makes the keys, and verifies the signatures, by the commands of docs/release.md.
func TestWithOpenSSL(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent-amd64"), "a program")
	shell := func(command string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", command)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	shell(clidoc.Command(t, "../../docs/release.md", "openssl genpkey"))
	if err := run([]string{filepath.Join(dir, "key.pem"), filepath.Join(dir, "agent-amd64")}, io.Discard); err != nil {
		t.Fatal(err)
	}
	shell(clidoc.Command(t, "../../docs/release.md", "openssl dgst"))
	shell("openssl dgst -sha256 -sign key.pem -out by.der agent-amd64")
	text, err := os.ReadFile(filepath.Join(dir, "by.der"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "agent-amd64.sig"), base64.StdEncoding.EncodeToString(text))
	if err := run([]string{"-verify", filepath.Join(dir, "pub.pem"), filepath.Join(dir, "agent-amd64")}, io.Discard); err != nil {
		t.Error(err)
	}
}

// The arguments with which docs/release.md verifies a release are taken.
func TestVerifyAsThePageSays(t *testing.T) {
	words := strings.Fields(clidoc.Command(t, "../../docs/release.md", "sign -verify"))
	if begin := strings.Join(words[:3], " "); begin != "go run ./envoy-tools/sign" {
		t.Fatalf("the page runs %q", begin)
	}
	dir, private, public := release(t)
	args, files := words[3:], []string{}
	for i, arg := range args {
		switch name := filepath.Base(arg); {
		case name == "pub.pem":
			args[i] = public
		case filepath.Dir(arg) == "run/release":
			args[i] = filepath.Join(dir, name)
			files = append(files, args[i])
		}
	}
	write(t, filepath.Join(dir, "agent-amd64"), "a program")
	for _, suffix := range []string{".tar", ".spdx.json"} { // release has an image of another name
		if err := os.Rename(filepath.Join(dir, "proxy-amd64"+suffix), filepath.Join(dir, "proxy-image-amd64"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(append([]string{private}, files...), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run(args, io.Discard); err != nil {
		t.Error(err)
	}
	write(t, files[0], "another program")
	if err := run(args, io.Discard); err == nil {
		t.Error("another program is verified")
	}
}

// Wrong arguments are named.
func TestWrongArguments(t *testing.T) {
	dir, private, public := release(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "read key"},
		{[]string{private}, "there is no file to sign"},
		{[]string{"-verify", public}, "there is no file to verify"},
		{[]string{public, "x"}, "want a private key"},
		{[]string{"-verify", private, "x"}, "want a public key"},
		{[]string{filepath.Join(dir, "agent"), "x"}, "is no PEM"},
		{[]string{private, filepath.Join(dir, "absent")}, "absent: no such file"},
	} {
		if err := run(tt.args, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		}
	}
}
