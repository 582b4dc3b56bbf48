// Package admission answers the API server with package inject: it reviews Pods that are created, by the configuration
// in a ConfigMap.
//
//	ConfigMap ── config, template ──▶ inject.Injector ◀── Review ◀── discovery/webhook
//
// If the ConfigMap has a fault, the last good one stays in use. The package leaves the change of a Pod to inject.
package admission
