// Command floor is the smallest parent of Envoy that can be written in Go: it starts its arguments as a child, prints the time
// at which it did, and waits. Package bench measures it beside the agent: no agent can be faster. It leaves everything else to
// its child: it does not handle signals, and it does not restart anything.
package main
