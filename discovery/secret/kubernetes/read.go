package kubernetes

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// rootsSuffix ends the name of roots that are beside a certificate.
const rootsSuffix = "-cacert"

// namespacesAnnotation of a Secret are the further namespaces whose DestinationRules may use its key, as words.
const namespacesAnnotation = "pilotlight.io/destination-rule-namespaces"

// read returns the content of a Secret, under the wanted names. The error does not show any of the content.
func read(o *corev1.Secret, w secret.Wanted) (map[secret.Name]secret.Secret, error) {
	first := func(keys ...string) (value []byte) {
		for _, key := range keys {
			if value = o.Data[key]; len(value) > 0 {
				break
			}
		}
		return value
	}
	certificate, key, roots := first(corev1.TLSCertKey, "cert"), first(corev1.TLSPrivateKeyKey, "key"), first("ca.crt", "cacert")
	out := map[secret.Name]secret.Secret{}
	if len(roots) > 0 {
		if !x509.NewCertPool().AppendCertsFromPEM(roots) {
			return nil, errors.New("has no certificate in ca.crt, want PEM")
		}
		s := secret.Secret{Roots: roots}
		out[w.As], out[secret.Name{Namespace: w.As.Namespace, Name: w.As.Name + rootsSuffix}] = s, s
	}
	switch {
	case len(certificate)+len(key) > 0:
		pair, err := secret.Pair(certificate, key, w.Accounts)
		if err != nil {
			return nil, fmt.Errorf("cannot be used, of tls.crt and tls.key: %w", err)
		}
		pair.Namespaces = strings.Fields(o.Annotations[namespacesAnnotation])
		out[w.As] = pair
	case w.Pair:
		return nil, errors.New("has no tls.crt and tls.key")
	case len(roots) == 0:
		return nil, errors.New("has neither tls.crt with tls.key nor ca.crt")
	}
	return out, nil
}
