// Discovery is a small control plane for Envoy that speaks Istio's configuration.
//
//	discovery serve     --configDir DIR     serve a directory of configuration over ADS
//	discovery validate  -f FILE|DIR|-       say what is wrong with configuration, with file and line
//	discovery inject    -f FILE|-           put the sidecar into the workloads of a manifest
//	discovery version
//
// It exits with status 0 when it was asked to stop, 1 when something failed, 2 when its arguments are wrong. The package reads
// flags and joins the adapters with the server. It leaves everything else to the packages below discovery.
package main
