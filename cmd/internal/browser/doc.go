// Package browser drives a real browser: against the page of a real turnfold, and on a
// page that runs useChat of the AI SDK against one.
package browser
