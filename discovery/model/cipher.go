package model

import (
	"fmt"
	"slices"
)

// Ciphers returns the cipher suites of BoringSSL below TLS 1.3; those of TLS 1.3 cannot be chosen.
func Ciphers() []string {
	out := []string{"AES128-GCM-SHA256", "AES128-SHA", "AES256-GCM-SHA384", "AES256-SHA"}
	for _, key := range []string{"ECDSA", "RSA"} {
		for _, c := range []string{
			"AES128-GCM-SHA256", "AES128-SHA", "AES256-GCM-SHA384", "AES256-SHA",
			"CHACHA20-POLY1305",
		} {
			out = append(out, fmt.Sprintf("ECDHE-%s-%s", key, c))
		}
	}
	return out
}

// Curves returns the names of BoringSSL for what keys are agreed on by.
func Curves() []string { return []string{"P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"} }

// ServedCiphers returns those of a list that a proxy takes, each once. Envoy refuses a listener over any other.
func ServedCiphers(list []string) (out []string) { return served(list, Ciphers()) }

// ServedCurves does the same with curves.
func ServedCurves(list []string) (out []string) { return served(list, Curves()) }

func served(list, known []string) (out []string) {
	for _, name := range list {
		if slices.Contains(known, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
