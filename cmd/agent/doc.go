// Agent is the sidecar's entry point: it starts Envoy, keeps it alive, replaces it and stops it.
//
//	agent proxy [sidecar|router|ingress]    run an Envoy until it is asked to stop
//	agent wait                              wait until a proxy serves; with -- CMD run a program then
//	agent status, agent request             ask a running agent
//	agent bootstrap                         print Envoy's bootstrap without running an Envoy
//	agent version, agent completion
//
// The package makes a Config of flags, the environment and a file, and calls one function with it. It leaves the joining of a
// proxy to agent/proxy, every decision about a running Envoy to package agent, and the bootstrap's text to package bootstrap.
package main
