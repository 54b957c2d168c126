// Package clients runs the libraries that people use against a real turnfold: whatever
// breaks on the way, each of them must end with exactly the winner's text.
package clients
