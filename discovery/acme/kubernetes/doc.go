// Package kubernetes keeps certificates of issuers, and the state of their orders, in Secrets that replicas share.
//
//	Run, of each replica:  watch ──▶ records, reports ──▶ Load, Heard        Say ──▶ Secret NAME-replicas
//	Lead, of the leader:   list ──▶ a term ──▶ Save, Forget, Account ──▶ Secrets NAME-…, NAME
//
// Each write has the resourceVersion that was read, and is refused where another replica has written meanwhile. The package does not decide who orders
// what, and when an issuer is told to ask: packages acme and client do.
package kubernetes
