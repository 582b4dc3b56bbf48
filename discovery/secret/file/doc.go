// Package file is the source of secrets in a directory of files, named as in a Kubernetes secret of type TLS:
//
//	DIR/NAMESPACE/NAME/tls.crt, tls.key          the secret NAME
//	DIR/NAMESPACE/NAME/ca.crt                    the secret NAME-cacert; alone in its directory it is NAME as well
//	DIR/NAMESPACE/[NAME/]service-accounts        the service accounts whose proxies may have the key, as words
//	DIR/NAMESPACE/[NAME/]destination-rule-namespaces  the further namespaces whose DestinationRules may use the key
//
// A secret that configuration wants for proxies of another namespace is sent by a further name, to their accounts; while
// it is wanted, the last good one stays.
//
// It reports a pair that does not match, roots that are not PEM, and names that are not UTF-8, each with its path.
package file
