package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The secrets' names in their documents.
const (
	certificateSecret = "discovery-certificate"
	rootsSecret       = "discovery-roots"
)

// File is a file that the caller writes before Envoy starts. It names certificates, and holds none.
type File struct {
	Path string
	Data []byte
}

// SecretFiles returns the file-SDS documents to which the bootstrap refers: discovery's mutual TLS, none without. They
// tell Envoy to watch the directory of the certificates, which is how a rotation reaches it.
func SecretFiles(p Params) ([]File, error) {
	t := p.Discovery.TLS
	if t == nil {
		return nil, nil
	}
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("render secrets of discovery: %w", err)
	}
	certificate, err := secret(t.CertificateSDS, certificateSecret, "tls_certificate", map[string]any{
		"certificate_chain": filename(t.Chain), "private_key": filename(t.Key),
	}, t.Chain, t.Key)
	if err != nil {
		return nil, err
	}
	roots, err := secret(t.RootsSDS, rootsSecret, "validation_context", map[string]any{
		"trusted_ca": filename(t.Roots),
	}, t.Roots)
	return []File{certificate, roots}, err
}

func filename(path string) map[string]any { return map[string]any{"filename": path} }

// secret is a document with one secret, made of files.
func secret(path, name, kind string, value map[string]any, files ...string) (File, error) {
	if dir := watched(files...); dir != "" {
		value["watched_directory"] = map[string]any{"path": dir}
	}
	text, err := marshal(map[string]any{"resources": []any{map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": name, kind: value,
	}}})
	var out bytes.Buffer
	if err == nil {
		err = json.Indent(&out, []byte(text), "", "  ")
	}
	if err != nil {
		return File{}, fmt.Errorf("render secret %s: %w", name, err)
	}
	return File{Path: path, Data: out.Bytes()}, nil
}
