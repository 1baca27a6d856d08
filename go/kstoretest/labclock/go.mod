// A module of its own, so that kstoretest needs only the standard library. The path is a name for `replace`, as that of kstoretest.
module kstoretest/labclock

go 1.22

require (
	k8s.io/utils v0.0.0-20221128185143-99ec85e7a448
	kstoretest v0.0.0
)

replace kstoretest => ../
