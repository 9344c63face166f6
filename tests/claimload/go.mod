module mooring.dev/tests/claimload

go 1.26.0
