// Package discovery is the server's loop: the groups of all sources become a mesh, and the mesh is pushed.
//
//	Source ─┐                                           every source synced or late, and quiet or ceiling
//	Source ─┼─ Update ──▶ state.apply(update, now) ──▶ debounce ──▶ model.NewOf(settings, all groups) ──▶ Pusher.Push
//	Source ─┘ ▲                 └ plain data, no goroutine
//	          └── restarted with a growing delay; its last good groups stay
//
// Changes that come close together cost one push. Nothing is pushed before every source has sent its initial state, or
// its deadline has passed: half a mesh would remove configuration that proxies already have. Sources can be added and
// removed while the server runs. What an earlier run has kept counts as sent by sources that then failed. docs/design/007-sources.md has the contract.
//
// The package does not depend on the adapters that send updates, nor on the connected proxies: discovery/plane joins it with both.
package discovery
