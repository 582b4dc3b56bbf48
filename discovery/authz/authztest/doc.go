// Package authztest has what the tests of policies share: rows of policies and requests (Rows), which package authz judges
// by the rules that it made (Allowed), and e2e/policies by the real Envoy. It does not make rules.
package authztest
