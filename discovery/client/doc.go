// Package client asks a running discovery on its HTTP address, for the commands beside serve.
//
// It does not print, and it does not start or find a discovery: commands own flags and output, discovery/status the pages.
package client
