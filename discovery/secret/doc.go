// Package secret says what a secret is, and how a source of secrets tells them: files today, Kubernetes and a certificate
// authority are others. Secrets do not pass through the Mesh: no page and no note of it may show a key.
//
//	Source.Run(ctx, updates) ─▶ discovery.Server: groups by source ─▶ Unite ─▶ Set ─▶ the streams of proxies
//
// It leaves to others which proxy may have a secret: that is package ads's.
package secret
