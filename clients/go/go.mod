module timerd

go 1.24
