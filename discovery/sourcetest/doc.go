// Package sourcetest is the conformance suite of sources: what every adapter of a registry, and every store of
// configuration, must do (docs/design/007-sources.md).
//
//	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry { … })
//	sourcetest.RunSecrets(t, func(t *testing.T) sourcetest.SecretStore { … })
//
// The suite changes the registry by the functions of a Registry, or a store of secrets by those of a SecretStore. It looks at
// what the source sends, and at what a real discovery.Server makes of it. It refuses to know how the registry is reached.
package sourcetest
