// Package templates holds the text templates of Envoy's bootstrap, one for each role.
//
// It refuses to know the values that fill them: package bootstrap renders.
package templates
