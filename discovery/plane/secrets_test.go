package plane

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A Secret of an Ingress comes from --secretsDir, for the account of the ingress proxies alone; one that is missing or broken
// is named, and one that was good stays.
func TestSecretsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "shop", name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "shop", name, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authority, err := lab.NewAuthority("public")
	if err != nil {
		t.Fatal(err)
	}
	id, err := authority.Issue("shop.test", 2)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := string(id.Chain), string(id.Key)
	write("good", "tls.crt", certificate)
	write("good", "tls.key", key)
	write("good", "service-accounts", "other")
	write("broken", "tls.crt", certificate)
	write("roots", "ca.crt", certificate)
	source := secretfile.New(dir, slog.New(slog.DiscardHandler))
	learned := make(chan struct{}, 1)
	source.OnLearned = func() {
		select {
		case learned <- struct{}{}:
		default:
		}
	}
	n := &ingressSecrets{dir: source, account: Name{"gw", "ingress"}}
	n.Want([]ingress.Name{{Namespace: "shop", Name: "good"}, {Namespace: "shop", Name: "broken"}, {Namespace: "shop", Name: "roots"}, {Namespace: "shop", Name: "gone"}})
	ctx, cancel := context.WithCancel(t.Context())
	updates := make(chan secret.Update)
	var g errgroup.Group
	g.Go(func() error { return source.Run(ctx, updates) })
	defer func() {
		cancel()
		_ = g.Wait()
	}()
	as := secret.Name{Namespace: "gw", Name: "kubernetes-ingress://shop/good"}
	groups := (<-updates).Groups
	if got := groups[as.String()].Secrets[as]; string(got.Key) != key || fmt.Sprint(got.Accounts) != "[ingress]" {
		t.Errorf("the accounts %v have it", got.Accounts)
	}
	if got := groups["shop/good"].Secrets[secret.Name{Namespace: "shop", Name: "good"}]; fmt.Sprint(got.Accounts) != "[other]" {
		t.Errorf("in its own namespace the accounts %v have it", got.Accounts)
	}
	<-learned
	known := n.Known()
	for name, want := range map[string]string{
		"good": "", "broken": "cannot be used: " + filepath.Join(dir, "shop", "broken") + ", of tls.crt and tls.key: tls: failed to find any PEM data in key input",
		"roots": "has no tls.crt and tls.key in " + filepath.Join(dir, "shop", "roots"), "gone": "is not there: want the directory " + filepath.Join(dir, "shop", "gone"),
	} {
		if got, looked := known[ingress.Name{Namespace: "shop", Name: name}]; !looked || got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}

	if err := os.RemoveAll(filepath.Join(dir, "shop", "good")); err != nil {
		t.Fatal(err)
	}
	for { // files go one after the other
		u := <-updates
		if group, changed := u.Groups[as.String()]; changed && !group.Malformed() {
			t.Fatalf("it is sent again as %v", group)
		}
		if group, changed := u.Groups["shop/good"]; changed && len(group.Secrets)+len(group.Faults) == 0 {
			break
		}
	}
	if fault := n.Known()[ingress.Name{Namespace: "shop", Name: "good"}]; fault != "" {
		t.Errorf("the last good one is not served: %s", fault)
	}
}

// Without a place for Secrets that is the fault of each.
func TestNoPlaceForSecrets(t *testing.T) {
	n := &ingressSecrets{}
	name := ingress.Name{Namespace: "shop", Name: "cert"}
	n.Want([]ingress.Name{name})
	if got := n.Known()[name]; got != "cannot be read: --secretsDir is not given" {
		t.Errorf("it %s", got)
	}
}
