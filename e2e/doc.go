// Package e2e holds the tests that show the product with real parts: our binaries, real Envoys, the example's
// services, on loopback and without root. Package e2e/lab starts them; each test here says what it shows.
package e2e
