package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
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
