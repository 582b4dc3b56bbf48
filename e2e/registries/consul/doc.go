// Command consul is the agent of Consul, which is a server too, for the tests of e2e/registries. It is built by
// envoy-tools/fetch-registries and is never shipped: the licence of Consul is not ours. It has the
// flags of `consul agent`, and does not have the other commands.
package main
