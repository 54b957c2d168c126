package provider

// ReadEvents lets the adapters be timed with the parser that feeds them.
var ReadEvents = readEvents
