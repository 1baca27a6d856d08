// The path is a name for `replace` until the module has an address; see README.md.
module kstoretest

go 1.22
