package plane

import (
	"fmt"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// A Secret of an Ingress is asked of the directory, and of the API server where there is no directory, or it was found
// not to have a good one. Before it was looked for, the API server is not asked: the directory's goes first.
func TestWantedByIngresses(t *testing.T) {
	names := []ingress.Name{{Namespace: "shop", Name: "good"}, {Namespace: "shop", Name: "bad"}, {Namespace: "shop", Name: "new"}}
	found := map[secret.Name]string{{Namespace: "shop", Name: "good"}: "", {Namespace: "shop", Name: "bad"}: "is not there"}
	proxies := Name{Namespace: "gw", Name: "ingress"}
	for name, test := range map[string]struct {
		dir  lookup
		want string
	}{
		"no directory":          {lookup{}, "[shop/good shop/bad shop/new]"},
		"a directory, unread":   {lookup{open: true}, "[]"},
		"a directory with some": {lookup{true, found}, "[shop/bad]"},
	} {
		fromDir, fromAPI := wantedByIngresses(names, proxies, test.dir)
		asked := []string{}
		for _, w := range fromAPI {
			asked = append(asked, w.Object.String())
		}
		if fmt.Sprint(asked) != test.want || len(fromDir) != len(names) {
			t.Errorf("%s: the API server is asked for %v, want %s; the directory for %d", name, asked, test.want, len(fromDir))
		}
		for i, w := range fromDir {
			as := secret.Name{Namespace: "gw", Name: ingress.Credential(names[i])}
			if w.As != as || !w.Pair || fmt.Sprint(w.Accounts) != "[ingress]" {
				t.Errorf("%s: %v is for %v, as %v", name, w.Object, w.Accounts, w.As)
			}
		}
	}
}

// A proxy that asks for a secret which nobody has brought is told about by what would bring it.
func TestASecretThatAGatewayLacks(t *testing.T) {
	accounts := map[string][]string{"shop": {"ingress"}}
	read := map[secret.Name]string{{Namespace: "shop", Name: "gone"}: "is not there", {Namespace: "shop", Name: "good"}: ""}
	for name, want := range map[secret.Name]string{
		{Namespace: "bank", Name: "gone"}:        `--gatewaySecrets names no service account of namespace "bank", so no Secret of it is read`,
		{Namespace: "shop", Name: "gone"}:        "Secret shop/gone is not there",
		{Namespace: "shop", Name: "gone-cacert"}: "Secret shop/gone is not there",
		{Namespace: "shop", Name: "stray"}:       "no Gateway of the namespace names it",
		{Namespace: "shop", Name: "good"}:        "",
	} {
		if got := lackingOfGateway(name, accounts, read); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFaultsOfIngresses(t *testing.T) {
	name := ingress.Name{Namespace: "shop", Name: "a"}
	of := func(fault string) lookup { return lookup{true, map[secret.Name]string{secret.Name(name): fault}} }
	const none = "not known"
	for title, test := range map[string]struct {
		dir, api lookup
		want     string
	}{
		"there is no place":            {lookup{}, lookup{}, "cannot be read: --secretsDir is not given"},
		"a directory has it":           {of(""), lookup{}, ""},
		"a directory, which is unread": {lookup{open: true}, of("is not there"), none},
		"it is in the API server":      {of("no directory"), of(""), ""},
		"it is nowhere":                {of("no directory"), of("no Secret"), "no Secret"},
		"the API server is unread":     {of("no directory"), lookup{open: true}, none},
		"an API server alone":          {lookup{}, of("no Secret"), "no Secret"},
	} {
		got, known := faultsOfIngresses([]ingress.Name{name}, test.dir, test.api)[name]
		if !known {
			got = none
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", title, got, test.want)
		}
	}
}
