// Package spelling finds the name that a misspelt name most likely means.
//
// It is pure. Its callers supply the known names, and write the message.
package spelling
