// Package viewers puts crowds of readers, slow ones and hostile ones in front of a real
// turnfold process, and measures what the others notice of them.
package viewers
