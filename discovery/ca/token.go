package ca

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of join tokens.
const (
	MaxTokens     = 1000 // that live
	LongestToken  = 30 * 24 * time.Hour
	rememberToken = 24 * time.Hour // how long one is listed after its end
	tokenPrefix   = "pljoin-"
)

// Token is a join token as it is kept: without its secret.
type Token struct {
	ID             string    `json:"id"`
	Hash           string    `json:"sha256"` // of the secret, hex
	Namespace      string    `json:"namespace"`
	ServiceAccount string    `json:"serviceAccount"`
	Created        time.Time `json:"created"`
	Expires        time.Time `json:"expires"`
	Once           bool      `json:"once,omitempty"` // for the key of the first request alone
	Key            string    `json:"key,omitempty"`  // SHA-256 of that key, hex
	Used           time.Time `json:"used,omitzero"`  // the last time
	Revoked        bool      `json:"revoked,omitempty"`
}

// State is what becomes of a token that is shown now.
func (t Token) State(now time.Time) string {
	switch {
	case t.Revoked:
		return "revoked"
	case !now.Before(t.Expires):
		return "expired"
	case t.Once && t.Key != "":
		return "used"
	default:
		return "valid"
	}
}

// Tokens are all join tokens.
type Tokens []Token

// ReadTokens reads the form in which they are stored; nothing is no token.
func ReadTokens(text []byte) (Tokens, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var out Tokens
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("parse join tokens: %w", err)
	}
	return out, nil
}

// Bytes returns the form in which they are stored.
func (all Tokens) Bytes() ([]byte, error) { return json.MarshalIndent(all, "", "  ") }

// IsJoinToken reports whether a text is meant to be a join token.
func IsJoinToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// Add makes a token for a service account. The secret text is returned once, and kept nowhere.
func (all Tokens) Add(namespace, account string, ttl time.Duration, once bool, now time.Time) (Tokens, Token, string, error) {
	if _, err := NewIdentity("cluster.local", namespace, account); err != nil {
		return nil, Token{}, "", err
	}
	if ttl <= 0 || ttl > LongestToken {
		return nil, Token{}, "", fmt.Errorf("a life of %s, want more than 0s and at most %s", ttl, LongestToken)
	}
	all = all.forget(now)
	living := 0
	for _, t := range all {
		if t.State(now) == "valid" {
			living++
		}
	}
	if living >= MaxTokens {
		return nil, Token{}, "", fmt.Errorf("%d join tokens are valid, and no more may be: revoke some", living)
	}
	random := make([]byte, 40) // crypto/rand does not fail
	_, _ = rand.Read(random)
	id, secret := hex.EncodeToString(random[:8]), base64.RawURLEncoding.EncodeToString(random[8:])
	t := Token{ID: id, Hash: hashOf(secret), Namespace: namespace, ServiceAccount: account, Created: now.UTC(), Expires: now.Add(ttl).UTC(), Once: once}
	return append(all, t), t, tokenPrefix + id + "-" + secret, nil
}

// forget leaves out the tokens that have ended long ago, and the oldest ones that are no longer valid where there are
// many.
func (all Tokens) forget(now time.Time) Tokens {
	kept := slices.DeleteFunc(slices.Clone(all), func(t Token) bool { return now.Sub(t.Expires) > rememberToken })
	for len(kept) >= 2*MaxTokens {
		i := slices.IndexFunc(kept, func(t Token) bool { return t.State(now) != "valid" })
		if i < 0 {
			break
		}
		kept = slices.Delete(kept, i, i+1)
	}
	return kept
}

// Revoke returns the tokens with one revoked.
func (all Tokens) Revoke(id string) (Tokens, error) {
	i := slices.IndexFunc(all, func(t Token) bool { return t.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("there is no join token %q: discovery token list has the IDs", id)
	}
	out := slices.Clone(all)
	out[i].Revoked = true
	return out, nil
}

// Redeem finds the service account of a token that is shown with a key. It returns the tokens as they are then, to be
// stored before anything is signed.
func (all Tokens) Redeem(text string, key Key, now time.Time) (Tokens, Token, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(text, tokenPrefix), "-")
	if !ok || !IsJoinToken(text) {
		return nil, Token{}, errors.New("the join token is malformed")
	}
	i := slices.IndexFunc(all, func(t Token) bool { return t.ID == id })
	if i < 0 {
		return nil, Token{}, errors.New("the join token is not known")
	}
	t := all[i]
	if subtle.ConstantTimeCompare([]byte(hashOf(secret)), []byte(t.Hash)) != 1 {
		return nil, Token{}, fmt.Errorf("the join token %s has another secret", t.ID)
	}
	mine := key.hash()
	switch state := t.State(now); {
	case state == "used" && t.Key != mine:
		return nil, Token{}, fmt.Errorf("the join token %s was used for another key at %s", t.ID, t.Used.Format(time.RFC3339))
	case state == "revoked" || state == "expired":
		return nil, Token{}, fmt.Errorf("the join token %s is %s", t.ID, state)
	}
	if t.Used = now.UTC(); t.Once {
		t.Key = mine
	}
	out := slices.Clone(all)
	out[i] = t
	return out, t, nil
}

// rememberUse is how exactly the last use of a token is kept.
const rememberUse = time.Minute

// Changes reports whether the use of a token must be stored: that of one which may be used once, and else not each one.
func (all Tokens) Changes(used Token) bool {
	i := slices.IndexFunc(all, func(t Token) bool { return t.ID == used.ID })
	return i < 0 || used.Once || used.Used.Sub(all[i].Used) >= rememberUse
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// hash names a key.
func (k Key) hash() string {
	sum := sha256.Sum256(k.der)
	return hex.EncodeToString(sum[:])
}
