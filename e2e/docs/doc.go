// Package docs follows the pages of docs/ as their readers do: each command block runs, in the order of the page, in one shell in a
// directory and a network namespace of its own, and prints what the page says that it prints. A page and the programs cannot drift apart.
//
//	```sh     commands: without an output after them they must succeed
//	```text   what the commands before it print; … stands for anything. They are run again until they do, so they start nothing
//
// It leaves out blocks named console, which need what is not here, and leaves the other pages to the packages that have their programs:
// docs/kubernetes.md to e2e/kube and e2e/node, docs/consul.md, docs/nomad.md and docs/eureka.md to e2e/registries, docs/virtual-machines.md to e2e/pod,
// README to e2e/traffic and e2e/pod. pages_test.go of the module's root finds a block that no test follows.
package docs
