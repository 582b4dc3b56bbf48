// Package hostile holds the tests of what a tenant may not do to a gateway that others share: with a real agent, its
// Envoy and discovery, on loopback and without root. The tests show discovery's half alone: what it does not send, and
// what it names. The agent's own half is shown in e2e/agent.
package hostile
