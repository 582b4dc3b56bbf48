// Package e2e holds the tests that show the product with real parts: our binaries, real Envoys, the example's
// services, on loopback and without root. It leaves to package e2e/lab how
// they are started, and to package e2e/pod what needs root.
package e2e
