// Package spelling finds the name that a misspelt name most likely means.
//
// It is pure. It does not write the message: its callers do, and supply the known names.
package spelling
