// Package truth holds discovery's explain to what a real Envoy does: it makes requests of what an Envoy has, sends them, reads in its access log what
// became of them, and compares that with the outcomes that explain says.
//
//	config dump ─▶ Parts.Draw ─▶ Exchange ─▶ Way ─▶ Envoy ─▶ access log ─▶ Did ─┐
//	                                │                                          ▼
//	                                └─────────▶ Asked ─▶ explain's outcomes ─▶ Compare ─▶ faults
//
// It starts no program. How its requests get to an Envoy, by its own port or by the kernel's redirection, and where it asks, it leaves to the tests in
// e2e/traffic and e2e/pod.
package truth
