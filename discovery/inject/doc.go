// Package inject puts a sidecar into a Pod, or into the template of a workload.
//
//	Config, template ─▶ New ─▶ Injector.Pod(Namespace, Pod) ─▶ Pod with its sidecar, or why not; warnings
//	                              │
//	                              ├ skip         is it to be injected?
//	                              ├ annotations  the settings of one Pod, checked
//	                              ├ probe        probes, hooks and metrics lead to the agent
//	                              ├ template     text in, part of a Pod out: every value is written as JSON
//	                              └ merge        by name; order of containers; status
//
// A Pod is the JSON that the API server sends, as maps, so that fields that are newer than this package stay as they
// are. No argument is changed. The package is pure. It leaves requests and files to its callers.
package inject
