// Discovery is a small control plane for Envoy that speaks Istio's configuration.
//
//	discovery serve     --configDir DIR     serve a directory of configuration over ADS
//	discovery validate  FILE|DIR|-          report the faults of configuration, with file and line
//	discovery inject    -f FILE|-           put the sidecar into the workloads of a manifest
//	discovery apply, discovery get, discovery delete, discovery proxyconfig
//	discovery token     create|list|revoke  the tokens with which agents join the authority of serve --ca
//	discovery release   SOURCE|proxies      end the hold of what a running discovery keeps back
//	discovery completion, discovery version
//
// It exits with status 0 when it was asked to stop, 1 when something failed, 2 when its arguments are wrong. The package
// only makes a plane.Config from flags, the environment and a file, and reads and prints objects for its other commands. Package
// discovery/plane joins what serve runs.
package main
