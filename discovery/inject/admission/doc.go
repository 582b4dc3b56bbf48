// Package admission answers the API server with package inject: the review of a Pod that is created, and the ConfigMap that
// says how.
//
//	ConfigMap ── config, template ──▶ inject.Injector ◀── Review ◀── discovery/webhook
//
// What is wrong with the ConfigMap changes nothing: the last good one stays. The package leaves to inject what becomes of a Pod.
package admission
