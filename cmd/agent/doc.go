// Agent is the sidecar's entry point: it starts Envoy, keeps it alive, replaces it and stops it.
//
//	agent proxy [sidecar|router|ingress]    run an Envoy until a signal to stop
//	agent drain                             take a proxy out of service, as a preStop hook
//	agent wait                              wait until a proxy serves; with -- CMD run a program then
//	agent status, agent request             send a request to a running agent
//	agent why                               say why requests failed
//	agent bootstrap                         print Envoy's bootstrap without running an Envoy
//	agent version, agent completion
//
// The package only makes a Config from flags, the environment and a file, and calls one function with it. Package
// agent/proxy joins the parts of a proxy, package agent makes every decision about a running Envoy, and package
// bootstrap makes the bootstrap.
package main
