// Package spelling finds the name that a misspelt name most likely means.
//
// It is pure. It leaves the message, and where the known names come from, to its callers.
package spelling
