module driver

go 1.24

require timerd v0.0.0

replace timerd => ../../../clients/go
