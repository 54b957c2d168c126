// Package chaos holds the tests of a whole deployment of processes: three NATS servers,
// two turnfolds of each role, and what happens to hosts. It has no code of its own.
package chaos
