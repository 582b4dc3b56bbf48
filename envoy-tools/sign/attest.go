package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

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
