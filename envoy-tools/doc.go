// Package envoytools tests the scripts in this folder: they fetch the real Envoy and Zipkin, redirect a pod's traffic and build the
// images. The scripts are no part of any binary. Package e2e/pod shows them with a real kernel; here stand the tests that need
// neither root nor the network: the package leaves both to e2e/pod.
package envoytools
