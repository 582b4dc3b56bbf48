package kubernetes

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

func tokensAt(api *apiServer) *Tokens {
	return &Tokens{
		Connect: func() (*kube.Client, error) { return kube.New(&rest.Config{Host: "http://127.0.0.1:1"}, "test") }, In: TokensBeside(At{"istio-system", "cacerts"}),
		open: func(*kube.Client) (secrets, error) { return api, nil },
	}
}

// A join token that may be used once is one key's, at whatever replica and at one moment; a revoked one is nobody's.
func TestSharedTokens(t *testing.T) {
	api := &apiServer{}
	one, two := tokensAt(api), tokensAt(api)
	defer one.Close()
	defer two.Close()
	if all, err := one.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := two.Redeem(t.Context(), "pljoin-none-none", requestOf(t), begin); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Error(err)
	}
	made, text, err := one.Create(t.Context(), "shop", "web", time.Hour, true, begin)
	if err != nil || api.stored.Name != "cacerts-join-tokens" || strings.Contains(string(api.stored.Data[tokensFile]), strings.SplitN(text, "-", 3)[2]) {
		t.Fatalf("%v: %+v", err, api.stored)
	}
	var mu sync.Mutex
	var winners []ca.Key
	var all sync.WaitGroup
	for i := range 8 {
		key := requestOf(t)
		all.Go(func() {
			if _, err := []*Tokens{one, two}[i%2].Redeem(t.Context(), text, key, begin); err == nil {
				mu.Lock()
				winners = append(winners, key)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d keys have used a token that may be used once", len(winners))
	}
	if used, err := two.Redeem(t.Context(), text, winners[0], begin.Add(time.Minute)); err != nil || used.ServiceAccount != "web" {
		t.Errorf("the same key again: %+v, %v", used, err)
	}
	busy := new(server.Busy)
	api.away = true
	if _, err := one.Redeem(t.Context(), text, winners[0], begin); !errors.As(err, &busy) {
		t.Errorf("without an API server: %v; want that the caller comes again", err)
	}
	api.away, api.lost = false, true // stored, and nobody knows
	if _, err := one.Redeem(t.Context(), text, winners[0], begin.Add(time.Hour/2)); !errors.As(err, &busy) {
		t.Errorf("with an answer that is lost: %v", err)
	}
	api.lost = false
	if err := two.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Redeem(t.Context(), text, winners[0], begin); err == nil || !strings.Contains(err.Error(), "is revoked") {
		t.Errorf("a token that is revoked: %v", err)
	}
	api.stored.Data[tokensFile] = []byte("{")
	if _, err := one.Redeem(t.Context(), text, winners[0], begin); !errors.As(err, &busy) || !strings.Contains(err.Error(), "Secret istio-system/cacerts-join-tokens") {
		t.Errorf("half of the tokens: %v", err)
	}
	if _, _, err := one.Create(t.Context(), "shop", "web", time.Hour, true, begin); err == nil {
		t.Error("tokens that cannot be read were written over")
	}
}

// Tokens that would not fit into a Secret are refused, and those that are there stay.
func TestSharedTokensAreBounded(t *testing.T) {
	api := &apiServer{}
	one := tokensAt(api)
	defer one.Close()
	long := strings.Repeat("a", 240)
	var all ca.Tokens
	for range 999 {
		next, _, _, err := all.Add(strings.Repeat("n", 63), long, time.Hour, true, begin)
		if err != nil {
			t.Fatal(err)
		}
		all = next
	}
	for i := range all {
		all[i].ServiceAccount += strings.Repeat("b", 500) // as a person could write it
	}
	text, err := all.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	api.stored = secretWith("istio-system", "cacerts-join-tokens", data{tokensFile: text})
	if _, _, err := one.Create(t.Context(), "shop", "web", time.Hour, true, begin); err == nil || !strings.Contains(err.Error(), "fit: revoke some") {
		t.Errorf("%v, %d bytes", err, len(text))
	}
}
