// Command bench measures the agent beside a bare Envoy and beside the least parent that Go can make, in turns in one
// run, and prints medians, ranges and their ratio. It does not judge: machines are noisy, so only ratios within one
// run can be compared.
//
//	go run ./e2e/bench -bin bin -n 30 -lives 5
package main
