package plane

import (
	"fmt"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// wantedByGateways returns the Secrets that Gateways name by credentialName, for the service accounts of the namespace
// of each. accounts are those, by namespace: a namespace without any gets none.
func wantedByGateways(objects []*model.Object, accounts map[string][]string) (out []secret.Wanted) {
	for _, o := range objects {
		given := accounts[o.Namespace]
		if len(given) == 0 {
			continue
		}
		for _, name := range config.Credentials(o) {
			object := secret.Name{Namespace: o.Namespace, Name: name}
			out = append(out, secret.Wanted{Object: object, As: object, Accounts: given})
		}
	}
	return out
}

// lackingOfGateway says why a secret is not there, of what was read for Gateways.
func lackingOfGateway(name secret.Name, accounts map[string][]string, read map[secret.Name]string) string {
	if len(accounts[name.Namespace]) == 0 {
		return fmt.Sprintf("--gatewaySecrets names no service account of namespace %q, so no Secret of it is read", name.Namespace)
	}
	fault, asked := read[name]
	if !asked { // a Secret has the roots for clients too, by a name of their own
		name.Name = strings.TrimSuffix(name.Name, "-cacert")
		fault, asked = read[name]
	}
	switch {
	case !asked:
		return "no Gateway of the namespace names it"
	case fault != "":
		return fmt.Sprintf("Secret %s/%s %s", name.Namespace, name.Name, fault)
	}
	return ""
}

// lookup is what was read of Secrets in one place: whether there is such a place, and the fault of each Secret, "" for
// none.
type lookup struct {
	open  bool
	found map[secret.Name]string
}

// good reports whether a Secret was read from the place and can be used, and whether that is known.
func (l lookup) good(name secret.Name) (good, known bool) {
	fault, looked := l.found[name]
	return looked && fault == "", looked
}

// wantedByIngresses returns the Secrets of Ingresses to ask a directory for, and those to ask the API server for: all
// without a directory, else those that the directory was found not to have. They are for the account of the ingress
// proxies.
func wantedByIngresses(names []ingress.Name, of Name, dir lookup) (fromDir, fromAPI []secret.Wanted) {
	for _, name := range names {
		w := secret.Wanted{
			Object: secret.Name(name), Pair: true,
			As: secret.Name{Namespace: of.Namespace, Name: ingress.Credential(name)}, Accounts: []string{of.Name},
		}
		fromDir = append(fromDir, w)
		if good, known := dir.good(w.Object); known && !good || !dir.open {
			fromAPI = append(fromAPI, w)
		}
	}
	return fromDir, fromAPI
}

// faultsOfIngresses returns the fault of each Secret that was looked for, "" for none: that of the place that was asked
// last.
func faultsOfIngresses(names []ingress.Name, dir, api lookup) map[ingress.Name]string {
	out := map[ingress.Name]string{}
	for _, name := range names {
		object := secret.Name(name)
		fault, looked := dir.found[object]
		switch {
		case !dir.open && !api.open:
			fault, looked = "cannot be read: --secretsDir is not given", true
		case api.open && (!dir.open || looked && fault != ""):
			fault, looked = api.found[object]
		}
		if looked {
			out[name] = fault
		}
	}
	return out
}
