// Package sourcetest is the conformance suite of sources: the rules that every adapter of a registry, and every store
// of configuration, must keep (docs/design/007-sources.md).
//
//	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry { … })
//	sourcetest.RunSecrets(t, func(t *testing.T) sourcetest.SecretStore { … })
//
// The suite changes the registry with the functions of a Registry, or a store of secrets with those of a SecretStore.
// It checks the updates that the source sends, and the mesh that a real discovery.Server makes of them. It does not
// depend on how the registry is reached.
package sourcetest
