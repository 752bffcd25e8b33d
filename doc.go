// Package lambae is the root of the module and holds no code: the server is in
// cmd, functions and internal, the client libraries are in sdk. Its test keeps
// the layers of the packages apart.
package lambae
