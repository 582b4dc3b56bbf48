package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sign", flag.ContinueOnError)
	public := flags.String("verify", "", "the public key: check instead of signing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files := flags.Args()
	if *public == "" && len(files) > 0 {
		return signAll(files[0], files[1:], out)
	}
	key, err := readPublic(*public)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there is no file to verify: want sign KEY.pem FILE..., or sign -verify PUB.pem FILE")
	}
	var faults []error
	for _, path := range files {
		if err := verifyFile(path, key); err != nil {
			faults = append(faults, fmt.Errorf("verify %s: %w", path, err))
			continue
		}
		fmt.Fprintln(out, "verified:", path)
	}
	return errors.Join(faults...)
}

func signAll(keyFile string, files []string, out io.Writer) error {
	key, err := readPrivate(keyFile)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there is no file to sign: want sign KEY.pem FILE..., or sign -verify PUB.pem FILE")
	}
	for _, path := range files {
		if err := signFile(path, key); err != nil {
			return fmt.Errorf("sign %s: %w", path, err)
		}
		fmt.Fprintln(out, "signed:", path)
	}
	return nil
}

func signFile(path string, key *ecdsa.PrivateKey) error {
	sum, err := hashOf(path)
	if err != nil {
		return err
	}
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".sig", []byte(base64.StdEncoding.EncodeToString(signature)+"\n"), 0o644); err != nil {
		return err
	}
	name, isArchive := strings.CutSuffix(path, ".tar")
	if !isArchive {
		return nil
	}
	s, err := statementOf(path, name+".spdx.json")
	if err != nil {
		return err
	}
	text, err := envelopeOf(s, key)
	if err != nil {
		return err
	}
	return os.WriteFile(name+".att.json", text, 0o644)
}

func verifyFile(path string, key *ecdsa.PublicKey) error {
	sum, err := hashOf(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path + ".sig")
	if err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || !ecdsa.VerifyASN1(key, sum, signature) {
		return fmt.Errorf("the signature %s.sig is not of this file and key", path)
	}
	name, isArchive := strings.CutSuffix(path, ".tar")
	if !isArchive {
		return nil
	}
	sealed, err := os.ReadFile(name + ".att.json")
	if err != nil {
		return err
	}
	got, err := opened(sealed, key)
	if err != nil {
		return fmt.Errorf("%s.att.json: %w", name, err)
	}
	s, err := statementOf(path, name+".spdx.json")
	if err != nil {
		return err
	}
	want, err := json.Marshal(s)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%s.att.json attests another image, or other contents than %s.spdx.json", name, name)
	}
	return nil
}

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

// statement is in-toto's, version 1.
type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// envelope is a DSSE.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"` // base64 in JSON
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	Sig string `json:"sig"`
}

const payloadType = "application/vnd.in-toto+json"

// statementOf says what an image holds: the digest of its manifest, and its list of contents.
func statementOf(archive, contents string) (statement, error) {
	digest, name, err := manifestOf(archive)
	if err != nil {
		return statement{}, err
	}
	list, err := compactJSON(contents)
	if err != nil {
		return statement{}, err
	}
	return statement{
		Type: "https://in-toto.io/Statement/v1", Subject: []subject{{Name: name, Digest: map[string]string{"sha256": digest}}},
		PredicateType: "https://spdx.dev/Document", Predicate: list,
	}, nil
}

// encoded is what DSSE signs: the type and the payload with their lengths, so that neither can be taken for a part of the other.
func encoded(payload []byte) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload))
	return sum[:]
}

func envelopeOf(s statement, key *ecdsa.PrivateKey) ([]byte, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sig, err := ecdsa.SignASN1(rand.Reader, key, encoded(payload))
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{payloadType, payload, []signature{{base64.StdEncoding.EncodeToString(sig)}}})
}

// opened returns the payload of an envelope that the key has signed.
func opened(text []byte, key *ecdsa.PublicKey) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	if e.PayloadType != payloadType {
		return nil, fmt.Errorf("its payload is %.60q, want %s", e.PayloadType, payloadType)
	}
	for _, s := range e.Signatures {
		if sig, err := base64.StdEncoding.DecodeString(s.Sig); err == nil && ecdsa.VerifyASN1(key, encoded(e.Payload), sig) {
			return e.Payload, nil
		}
	}
	return nil, errors.New("no signature is of this payload and key")
}

// nameOf returns the name of an image without its tag.
func nameOf(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), ":")
	return path.Join(path.Base(path.Dir(reference)), name)
}
