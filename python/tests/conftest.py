"""What the tests of the package share. They run against the installed wheel, whose plugin pytest finds by itself."""

pytest_plugins = ["pytester"]
