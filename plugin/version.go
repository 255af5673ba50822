package main

// version is that of the program. The Makefile sets it when it links a release.
var version = "dev"
