package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"
)

func readPrivate(path string) (*ecdsa.PrivateKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	if key, err := x509.ParseECPrivateKey(block); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if key, isECDSA := parsed.(*ecdsa.PrivateKey); isECDSA {
		return key, nil
	}
	return nil, fmt.Errorf("read key %s: want a private key of the curve P-256, without a password (%v)", path, err)
}

func readPublic(path string) (*ecdsa.PublicKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(block)
	if key, isECDSA := parsed.(*ecdsa.PublicKey); isECDSA {
		return key, nil
	}
	return nil, fmt.Errorf("read key %s: want a public key of the curve P-256 (%v)", path, err)
}

func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "EC PARAMETERS" { // which OpenSSL writes before a key
			return block.Bytes, nil
		}
	}
	return nil, fmt.Errorf("read key %s: is no PEM", path)
}

func hashOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// manifestOf returns the digest of the manifest in an OCI archive, and the image's name.
func manifestOf(archive string) (digest, name string, err error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	for entries := tar.NewReader(file); ; {
		header, err := entries.Next()
		if err != nil {
			return "", "", fmt.Errorf("%s: find index.json: %w", archive, err)
		}
		if strings.TrimPrefix(header.Name, "./") != "index.json" {
			continue
		}
		var index struct {
			Manifests []struct {
				Digest      string
				Annotations map[string]string
			}
		}
		if err := json.NewDecoder(entries).Decode(&index); err != nil {
			return "", "", fmt.Errorf("%s: read index.json: %w", archive, err)
		}
		if len(index.Manifests) != 1 {
			return "", "", fmt.Errorf("%s: it holds %d images, want one", archive, len(index.Manifests))
		}
		hex, isSHA := strings.CutPrefix(index.Manifests[0].Digest, "sha256:")
		if !isSHA {
			return "", "", fmt.Errorf("%s: the digest is %.80q, want sha256:…", archive, index.Manifests[0].Digest)
		}
		return hex, nameOf(index.Manifests[0].Annotations["org.opencontainers.image.ref.name"]), nil
	}
}

// compactJSON reads a document in the form that json.Marshal gives a part of another.
func compactJSON(path string) (json.RawMessage, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out.Bytes(), nil
}
