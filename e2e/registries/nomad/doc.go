// Command nomad is Nomad, server and client, for the test of docs/nomad.md. It is built by envoy-tools/fetch-registries and is never
// shipped: the licence of Nomad is not ours. It has Nomad's commands, and does not have what its own program does for people who type
// them: completion, colours, and help in groups. Its tasks have no templates, artifacts and containers.
package main
