// Package secret defines a secret and a source of secrets: package file reads directories, package kubernetes a
// cluster. Secrets are not part of the Mesh: no page and no note of it may show a key.
//
//	Source.Run(ctx, updates) ─▶ discovery.Server: groups by source ─▶ Unite ─▶ Set ─▶ the streams of proxies
//
// It does not decide which proxy may have a secret: package ads does.
package secret
