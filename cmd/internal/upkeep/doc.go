// Package upkeep holds what operators do to a deployment, such as erasing, archiving,
// restoring and backing up, against whole turnfold processes: complete, repeatable, and
// killed in the middle. It has tests alone.
package upkeep
