// Package templates holds the text templates of Envoy's bootstrap, one for each role.
//
// It holds text only. Package bootstrap renders it, and knows the values.
package templates
