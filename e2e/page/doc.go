// Package page holds the tests of the mesh's page in a real browser, headless Chromium, behind the build tag browser: what it shows, that it
// is live, that it can be used by keyboard, and what axe-core finds. Chromium is spoken to by two pipes; package lab starts the rest. What the page is
// made of is tested in discovery/page, without a browser; this package does not look at its data.
package page
