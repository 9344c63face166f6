module mooring.dev/tests/pod

go 1.26.0
